#include <algorithm>
#include <cmath>

#include "autograd/ops/resize.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

struct Size {
  int64_t height, width;
};

/// Of one axis in plain words: the place of new pixel i, kept within the old ones.
double place(int64_t i, int64_t in, int64_t out) {
  const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  return std::clamp(at, 0.0, static_cast<double>(in - 1));
}

/// Every old pixel counts as much as it is near, less than one pixel away.
auto naive(Size size) {
  return [size](const std::vector<Tensor>& inputs) {
    const Tensor& x = inputs[0];
    const Values from = x.to_vector();
    const auto near = [](double at, int64_t old) { return std::max(0.0, 1 - std::abs(at - static_cast<double>(old))); };
    Values y;
    for (int64_t b = 0; b < x.dim(0); ++b)
      for (int64_t i = 0; i < size.height; ++i)
        for (int64_t j = 0; j < size.width; ++j)
          for (int64_t c = 0; c < x.dim(3); ++c) {
            double sum = 0;
            for (int64_t h = 0; h < x.dim(1); ++h)
              for (int64_t w = 0; w < x.dim(2); ++w)
                sum += near(place(i, x.dim(1), size.height), h) * near(place(j, x.dim(2), size.width), w) *
                       from[((b * x.dim(1) + h) * x.dim(2) + w) * x.dim(3) + c];
            y.push_back(sum);
          }
    return y;
  };
}

}  // namespace

OP_CASES(resize2d) {
  const auto run = [](Size size) { return [size](const auto& x) { return resize2d(x[0], size.height, size.width); }; };
  const auto to = [&](std::string name, InputSpec x, Size size) {
    add({.name = std::move(name), .inputs = {std::move(x)}, .run = run(size), .expect = naive(size), .tolerance_scale = 2});
  };
  to("twice", randn({2, 3, 4, 8}), {6, 8});
  to("thrice", randn({1, 4, 3, 5}), {12, 9});
  to("another_ratio", randn({2, 3, 5, 4}), {7, 8});
  to("smaller", randn({1, 7, 8, 3}), {3, 5});
  to("much_smaller", randn({1, 9, 11, 4}), {2, 1});
  to("much_larger", randn({1, 2, 3, 2}), {17, 25});
  to("the_same", randn({2, 3, 4, 3}), {3, 4});
  to("one_pixel", randn({3, 1, 1, 9}), {4, 2});
  to("to_one_pixel", randn({2, 4, 3, 8}), {1, 1});
  to("one_channel", randn({2, 5, 3, 1}), {10, 6});
  to("no_samples", randn({0, 2, 2, 8}), {4, 4});
  to("no_channels", randn({1, 2, 2, 0}), {4, 4});
  to("view", transposed(randn({1, 3, 4, 3}), 1, 2), {8, 6});
  to("misaligned", misaligned({1, 2, 3, 8}), {4, 6});
  add({.name = "many_channels", .inputs = {randn({1, 2, 2, 300})}, .run = run({4, 4}), .expect = naive({4, 4}), .gradient = false});
  add({.name = "matrix", .inputs = {randn({4, 4})}, .run = run({8, 8}), .throws = "needs images"});
  add({.name = "no_pixels", .inputs = {randn({1, 0, 4, 1})}, .run = run({8, 8}), .throws = "with pixels"});
  add({.name = "no_size", .inputs = {randn({1, 4, 4, 1})}, .run = run({0, 8}), .throws = "at least 1 x 1, got 0 x 8"});
  add({.name = "unet_top", .inputs = {randn({8, 96, 96, 64})}, .run = run({192, 192}), .bench = true});
}
