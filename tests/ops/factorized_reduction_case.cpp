#include "autograd/ops/factorized_reduction.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Var reduced(const std::vector<Var>& x) { return factorized_reduction(x[0], x[1], x[2]); }

/// Pixel by pixel, by plain loops.
Values reference(const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  const int64_t height = x.dim(1), width = x.dim(2), channels = x.dim(3), outputs = inputs[1].dim(0);
  const Values image = x.to_vector(), weights[2] = {inputs[1].to_vector(), inputs[2].to_vector()};
  Values y;
  for (int64_t b = 0; b < x.dim(0); ++b)
    for (int64_t i = 0; i < height; i += 2)
      for (int64_t j = 0; j < width; j += 2)
        for (const int64_t odd : {0, 1})
          for (int64_t o = 0; o < outputs; ++o) {
            double sum = 0;
            if (i + odd < height && j + odd < width)
              for (int64_t c = 0; c < channels; ++c)
                sum += image[((b * height + i + odd) * width + j + odd) * channels + c] * weights[odd][o * channels + c];
            y.push_back(sum);
          }
  return y;
}

}  // namespace

OP_CASES(factorized_reduction) {
  const auto check = [&](const char* name, const Shape& x, int64_t outputs) {
    add({.name = name,
         .inputs = {randn(x), randn({outputs, 1, 1, x[3]}), randn({outputs, 1, 1, x[3]})},
         .run = reduced,
         .expect = reference});
  };
  check("even", {2, 4, 6, 3}, 4);
  check("odd", {2, 5, 3, 3}, 2);
  check("odd_rows", {1, 5, 4, 8}, 8);
  check("odd_columns", {3, 2, 7, 1}, 1);
  check("one_pixel", {2, 1, 1, 5}, 3);
  check("one_row", {2, 1, 4, 5}, 3);
  check("no_images", {0, 4, 4, 3}, 2);
  check("no_pixels", {2, 0, 4, 3}, 2);
  add({.name = "view",
       .inputs = {sliced(transposed(randn({2, 6, 5, 4}), 1, 2), 3, 1, 3), transposed(randn({2, 1, 1, 3}), 0, 3), randn({3, 1, 1, 2})},
       .run = reduced,
       .expect = reference});
  const auto refuse = [&](const char* name, const Shape& x, const Shape& even, const Shape& odd, const char* message) {
    add({.name = name, .inputs = {randn(x), randn(even), randn(odd)}, .run = reduced, .throws = message});
  };
  refuse("rank", {4, 4, 3}, {2, 1, 1, 3}, {2, 1, 1, 3}, "x [batch, height, width, channels]");
  refuse("channels", {1, 4, 4, 3}, {2, 1, 1, 4}, {2, 1, 1, 4}, "got [1, 4, 4, 3], [2, 1, 1, 4] and [2, 1, 1, 4]");
  refuse("weights_that_differ", {1, 4, 4, 3}, {2, 1, 1, 3}, {3, 1, 1, 3}, "two weights [outputs, 1, 1, channels]");
  refuse("larger_window", {1, 4, 4, 3}, {2, 3, 3, 3}, {2, 3, 3, 3}, "two weights [outputs, 1, 1, channels]");
  // AmoebaNet-D (6, 64) at 64 pixels: its widest.
  add({.name = "amoebanet",
       .inputs = {randn({32, 31, 31, 32}), randn({8, 1, 1, 32}), randn({8, 1, 1, 32})},
       .run = reduced,
       .bench = true});
}
