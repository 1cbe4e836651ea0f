// In bf16 the gradient of a convolution's weights was whatever the memory held at taps of the window that lie beyond a small image at every
// place: AmoebaNet on tiny images trained on such numbers, or stopped for a gradient that is not finite, now and then.
#include <gtest/gtest.h>

#include "core/ops/convolution.h"
#include "core/ops/copy.h"
#include "core/random.h"

namespace sluice {
namespace {

Tensor drawn(const Shape& shape, const char* name, DType dtype) {
  const Tensor x = empty(shape);
  fill_normal(x, 0, 1, random_key(1, name));
  return cast(cast(x, DType::bf16), dtype);
}

Tensor weight_gradient(const Shape& image, const Window& window, DType dtype) {
  const Shape weight{4, window.size_h, window.size_w, image[3]};
  const Shape y = plan_of("test", image, window).output(4);
  const Tensor x = drawn(image, "x", dtype), dy = drawn(y, "dy", dtype);
  full({1 << 16}, 1e30);  // what memory may hold
  return conv2d_weight_gradient(dy, x, weight, window);
}

TEST(TapsBeyondTheImage, HaveNoGradient) {
  for (const Window& window :
       {Window{.size_h = 3, .size_w = 3, .stride_h = 2, .stride_w = 2}, Window{.size_h = 1, .size_w = 7, .stride_w = 2},
        Window{.size_h = 5, .size_w = 5, .stride_h = 3, .stride_w = 3, .padding = Padding::given, .pad_h = 2, .pad_w = 2}})
    for (const Shape& image : {Shape{1, 1, 1, 4}, Shape{2, 4, 1, 16}, Shape{3, 2, 2, 8}}) {
      const auto exact = weight_gradient(image, window, DType::f64).to_vector();
      for (const DType dtype : {DType::bf16, DType::f32}) {
        const auto got = weight_gradient(image, window, dtype).to_vector();
        for (size_t i = 0; i < exact.size(); ++i)
          ASSERT_NEAR(got[i], exact[i], 1e-4) << image << ", element " << i << " in " << name_of(dtype);
      }
    }
}

}  // namespace
}  // namespace sluice
