#include "core/ops/elementwise.h"
#include "core/ops/spread_pixels.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

struct Spread {
  Shape shape;
  int64_t stride_h, stride_w;
};

Tensor spread(const std::vector<Tensor>& pixels, const Spread& to, const Tensor& sum = {}) {
  return spread_pixels(pixels, to.shape, to.stride_h, to.stride_w, sum);
}

std::vector<Tensor> values_of(const std::vector<Var>& x) {
  std::vector<Tensor> result;
  for (const Var& of : x) result.push_back(of.value());
  return result;
}

/// Pixel by pixel, by plain loops.
Values reference(const std::vector<Tensor>& pixels, const Spread& to) {
  const int64_t rows = pixels[0].dim(1), columns = pixels[0].dim(2), channels = to.shape[3];
  Values dx(static_cast<size_t>(to.shape.elements()));
  for (size_t k = 0; k < pixels.size(); ++k) {
    const Values from = pixels[k].to_vector();
    const auto first = static_cast<int64_t>(k);
    for (int64_t b = 0; b < to.shape[0]; ++b)
      for (int64_t i = 0; i < rows && first + i * to.stride_h < to.shape[1]; ++i)
        for (int64_t j = 0; j < columns && first + j * to.stride_w < to.shape[2]; ++j)
          for (int64_t c = 0; c < channels; ++c)
            dx[((b * to.shape[1] + first + i * to.stride_h) * to.shape[2] + first + j * to.stride_w) * channels + c] =
                from[((b * rows + i) * columns + j) * channels + c];
  }
  return dx;
}

/// The difference, of any bit, between pixels that are spread over a sum, the last of the tensors, and an addition afterwards.
Var sum_difference(std::vector<Tensor> pixels, const Spread& to) {
  const Tensor sum = pixels.back();
  pixels.pop_back();
  return Var(scale(sub(spread(pixels, to, sum), add(spread(pixels, to), sum)), 1e30));
}

}  // namespace

OP_CASES(spread_pixels) {
  const auto with = [&](const std::string& name, const Spread& to, const std::vector<InputSpec>& pixels) {
    add({.name = name,
         .inputs = pixels,
         .run = [to](const auto& x) { return Var(spread(values_of(x), to)); },
         .expect = [to](const std::vector<Tensor>& x) { return reference(x, to); },
         .gradient = false});
    std::vector<InputSpec> and_sum = pixels;
    and_sum.push_back(randn(to.shape));
    add({.name = name + "_sum",
         .inputs = and_sum,
         .run = [to](const auto& x) { return sum_difference(values_of(x), to); },
         .expect = [](const std::vector<Tensor>& x) { return Values(static_cast<size_t>(x.back().elements())); },
         .gradient = false});
  };
  with("one", {{2, 5, 7, 3}, 2, 3}, {randn({2, 3, 3, 3})});
  with("two", {{2, 4, 6, 5}, 2, 2}, {randn({2, 2, 3, 5}), randn({2, 2, 3, 5})});
  with("two_past_the_edge", {{2, 5, 3, 3}, 2, 2}, {randn({2, 3, 2, 3}), randn({2, 3, 2, 3})});
  with("fewer_than_fit", {{1, 7, 9, 2}, 3, 2}, {randn({1, 2, 3, 2}), randn({1, 2, 3, 2})});
  with("packs", {{1, 4, 5, 48}, 2, 2}, {randn({1, 2, 3, 48}), randn({1, 2, 3, 48})});
  with("long_rows", {{1, 2, 70, 24}, 2, 2}, {randn({1, 1, 35, 24}), randn({1, 1, 35, 24})});
  with("no_stride", {{2, 3, 3, 4}, 1, 1}, {randn({2, 3, 3, 4})});
  with("view", {{1, 5, 4, 8}, 2, 2}, {transposed(randn({1, 2, 3, 8}), 1, 2), misaligned({1, 3, 2, 8})});
  with("no_pixels", {{2, 3, 3, 4}, 2, 2}, {randn({2, 0, 0, 4})});
  with("no_samples", {{0, 3, 3, 4}, 2, 2}, {randn({0, 2, 2, 4})});
  const auto refuse = [&](const char* name, const Spread& to, const std::vector<InputSpec>& pixels, const char* message) {
    add({.name = name, .inputs = pixels, .run = [to](const auto& x) { return Var(spread(values_of(x), to)); }, .throws = message});
  };
  refuse("two_without_stride", {{1, 4, 4, 2}, 2, 1}, {randn({1, 2, 4, 2}), randn({1, 2, 4, 2})}, "two and strides of at least 2");
  refuse("three", {{1, 6, 6, 2}, 3, 3}, {randn({1, 2, 2, 2}), randn({1, 2, 2, 2}), randn({1, 2, 2, 2})}, "one image of pixels, or two");
  refuse("stride_0", {{1, 4, 4, 2}, 0, 1}, {randn({1, 2, 4, 2})}, "strides 0 and 1");
  refuse("channels", {{1, 4, 4, 2}, 2, 2}, {randn({1, 2, 2, 3})}, "for an image [1, 4, 4, 2], got f32 [1, 2, 2, 3]");
  refuse("unlike", {{1, 4, 4, 2}, 2, 2}, {randn({1, 2, 2, 2}), randn({1, 2, 1, 2})}, "and f32 [1, 2, 1, 2]");
  add({.name = "short_sum",
       .inputs = {randn({1, 2, 2, 2}), randn({1, 4, 3, 2})},
       .run =
           [](const auto& x) {
             return Var(spread({x[0].value()}, {{1, 4, 4, 2}, 2, 2}, x[1].value()));
           },
       .throws = "spread_pixels: needs a sum like the gradient"});
}
