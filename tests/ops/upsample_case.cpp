#include "autograd/ops/upsample.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

struct Size {
  int64_t factor, height, width;
};

auto naive(Size size) {
  return [size](const std::vector<Tensor>& inputs) {
    const Tensor& x = inputs[0];
    const Values from = x.to_vector();
    Values y;
    for (int64_t b = 0; b < x.dim(0); ++b)
      for (int64_t i = 0; i < size.height; ++i)
        for (int64_t j = 0; j < size.width; ++j)
          for (int64_t c = 0; c < x.dim(3); ++c)
            y.push_back(from[((b * x.dim(1) + i / size.factor) * x.dim(2) + j / size.factor) * x.dim(3) + c]);
    return y;
  };
}

}  // namespace

OP_CASES(upsample2d) {
  const auto run = [](Size size) { return [size](const auto& x) { return upsample2d(x[0], size.factor, size.height, size.width); }; };
  const auto up = [&](std::string name, InputSpec x, Size size) {
    add({.name = std::move(name), .inputs = {std::move(x)}, .run = run(size), .expect = naive(size)});
  };
  up("even", randn({2, 3, 4, 8}), {2, 6, 8});
  up("odd", randn({2, 3, 4, 8}), {2, 5, 7});
  up("thrice", randn({1, 2, 3, 5}), {3, 4, 8});
  up("once", randn({1, 3, 2, 4}), {1, 3, 2});
  up("one_pixel", randn({3, 1, 1, 9}), {2, 1, 2});
  up("one_channel", randn({2, 5, 3, 1}), {2, 10, 6});
  up("no_samples", randn({0, 2, 2, 8}), {2, 4, 4});
  up("no_channels", randn({1, 2, 2, 0}), {2, 4, 4});
  up("view", transposed(randn({1, 3, 4, 3}), 1, 2), {2, 8, 6});
  up("misaligned", misaligned({1, 2, 3, 8}), {2, 4, 6});
  add({.name = "many_channels", .inputs = {randn({1, 2, 2, 300})}, .run = run({2, 4, 4}), .expect = naive({2, 4, 4}), .gradient = false});
  add({.name = "matrix", .inputs = {randn({4, 4})}, .run = run({2, 8, 8}), .throws = "needs images"});
  add({.name = "no_factor", .inputs = {randn({1, 4, 4, 1})}, .run = run({0, 8, 8}), .throws = "factor of at least 1"});
  add({.name = "too_large", .inputs = {randn({1, 4, 4, 1})}, .run = run({2, 9, 8}), .throws = "rounded up, is 4 x 4, got 9 x 8"});
  add({.name = "too_small", .inputs = {randn({1, 4, 4, 1})}, .run = run({2, 8, 6}), .throws = "rounded up, is 4 x 4, got 8 x 6"});
  add({.name = "unet_top", .inputs = {randn({8, 96, 96, 64})}, .run = run({2, 192, 192}), .bench = true});
  add({.name = "unet_bottom", .inputs = {randn({8, 6, 6, 1024})}, .run = run({2, 12, 12}), .bench = true});
}
