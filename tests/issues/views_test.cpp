// What views once made wrong without a word: weights of norms and classes that kernels read as if they were row-major, and copies between
// views of the same elements, which depended on the order of the work.
#include <gtest/gtest.h>

#include <cstring>

#include "core/ops/batch_norm.h"
#include "core/ops/convolution.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/normalization.h"
#include "core/ops/ramp.h"
#include "core/random.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// 1, 2, 3 among other numbers.
Tensor among_others() { return tensor_of({1, 9, 2, 9, 3}, {5}).slice(0, 0, kEnd, 2); }

TEST(Views, WeightsOfNormsMayBe) {
  const Tensor x = tensor_of({1, 2, 4, -1, 0, 5}, {2, 3}), gain = among_others(), whole = gain.contiguous(), zero = zeros({3});
  EXPECT_EQ(layer_norm(x, gain, zero, 1e-5).y.to_vector(), layer_norm(x, whole, zero, 1e-5).y.to_vector());
  EXPECT_EQ(layer_norm(x, zero, gain, 1e-5).y.to_vector(), layer_norm(x, zero, whole, 1e-5).y.to_vector());
  EXPECT_EQ(rms_norm(x, gain, 1e-5).y.to_vector(), rms_norm(x, whole, 1e-5).y.to_vector());
  EXPECT_EQ(batch_norm(x, gain, gain, 1e-5).y.to_vector(), batch_norm(x, whole, whole, 1e-5).y.to_vector());
  const auto scored = [&](const Tensor& w) { return batch_norm_inference(x, {w, w, w, w, 1e-5, false}).to_vector(); };
  EXPECT_EQ(scored(gain), scored(whole));
  EXPECT_EQ(layer_norm(x, tensor_of({2}, {1}).expand({3}), zero, 1e-5).y.to_vector(),
            layer_norm(x, full({3}, 2), zero, 1e-5).y.to_vector());
}

TEST(Views, WeightsOfClassesMayBe) {
  const Tensor logits = tensor_of({0.5, 1, -1}, {1, 3}), target = tensor_of({1}, {1}, DType::i32), dy = full({}, 1);
  const CrossEntropyOptions by_view{.weights = among_others()}, whole{.weights = among_others().contiguous()};
  const auto view = cross_entropy(logits, target, by_view, 1), copied = cross_entropy(logits, target, whole, 1);
  EXPECT_EQ(view.loss.item(), copied.loss.item());
  EXPECT_EQ(cross_entropy_backward(dy, logits, target, view.row_sums, by_view, 1).to_vector(),
            cross_entropy_backward(dy, logits, target, copied.row_sums, whole, 1).to_vector());
}

TEST(Views, AreNotWrittenWhileAnotherOfTheSameElementsIsRead) {
  const int64_t n = 1'000'000;
  const Tensor x = arange(0, n, 1, DType::i32);
  expect_error<UsageError>([&] { copy(x.slice(0, 0, n - 1), x.slice(0, 1, n)); },
                           {"copy: needs a target apart from what it reads", "clone()"});
  const Tensor square = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  expect_error<UsageError>([&] { copy(square.transpose(0, 1), square); }, {"copy", "clone()"});
  expect_error<UsageError>([&] { add_into(square, square.transpose(0, 1)); }, {"add_into", "clone()"});
  copy(square.slice(1, 0, 1), square.slice(1, 2, 3));  // columns between each other
  EXPECT_EQ(square.to_vector(), (std::vector<double>{1, 2, 1, 4, 5, 4, 7, 8, 7}));
  copy(square, square);
  add_into(square, square);
  EXPECT_EQ(square.to_vector(), (std::vector<double>{2, 4, 2, 8, 10, 8, 14, 16, 14}));
}

/// A value is a view on the stage that made it and row-major on another, so the bits of its readers may depend on its shape alone.
TEST(Views, OfImagesGiveConvolutionsOfOnePixelTheBitsOfTheirCopies) {
  const auto slice_of_wider = [](const Shape& shape, const char* name) {
    const Tensor wide = empty(shape.with(3, shape[3] + 5));
    fill_normal(wide, 0, 1, random_key(1, name));
    return wide.slice(3, 3, 3 + shape[3]);
  };
  for (const int64_t channels : {3, 16, 100, 512, 1024})
    for (const int64_t outputs : {4, 48, 96, 512})
      for (const int64_t size : {1, 7, 16})
        for (const int64_t stride : {1, 2}) {
          SCOPED_TRACE(testing::Message() << channels << " channels, " << outputs << " outputs, " << size << " pixels, stride " << stride);
          const Window window{.size_h = 1, .size_w = 1, .stride_h = stride, .stride_w = stride};
          const int64_t left = (size + stride - 1) / stride;
          const Tensor x = slice_of_wider({4, size, size, channels}, "x"), dy = slice_of_wider({4, left, left, outputs}, "dy");
          const Tensor weight = slice_of_wider({outputs, 1, 1, channels}, "weight").contiguous();
          const auto expect_same = [](const Tensor& of_view, const Tensor& of_copy) {
            ASSERT_TRUE(of_view.is_contiguous() && of_copy.is_contiguous());
            EXPECT_EQ(0, std::memcmp(of_view.data<float>(), of_copy.data<float>(), static_cast<size_t>(of_copy.bytes())));
          };
          expect_same(conv2d(x, weight, window, 1), conv2d(x.contiguous(), weight, window, 1));
          expect_same(conv2d_input_gradient(dy, weight, x.shape(), window, 1),
                      conv2d_input_gradient(dy.contiguous(), weight, x.shape(), window, 1));
          expect_same(conv2d_weight_gradient(dy, x, weight.shape(), window, 1),
                      conv2d_weight_gradient(dy.contiguous(), x.contiguous(), weight.shape(), window, 1));
        }
}

}  // namespace
}  // namespace sluice
