#include <cmath>
#include <limits>

#include "autograd/ops/pooling.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Calls visit(y's element, the elements of x under its window) in row-major order.
template <class Visit>
Values pooled(const Tensor& x, const Window& window, const Visit& visit) {
  const WindowPlan plan = plan_of("naive", x.shape(), window);
  const Values from = x.to_vector();
  const int64_t channels = x.dim(3);
  Values y;
  for (int64_t b = 0; b < plan.batch; ++b)
    for (int64_t i = 0; i < plan.out_h; ++i)
      for (int64_t j = 0; j < plan.out_w; ++j)
        for (int64_t c = 0; c < channels; ++c) {
          Values under;
          for (int64_t h = i * window.stride_h - plan.before_h; h < i * window.stride_h - plan.before_h + window.size_h; ++h)
            for (int64_t w = j * window.stride_w - plan.before_w; w < j * window.stride_w - plan.before_w + window.size_w; ++w)
              if (h >= 0 && h < plan.in_h && w >= 0 && w < plan.in_w)
                under.push_back(from[((b * plan.in_h + h) * plan.in_w + w) * channels + c]);
          y.push_back(visit(under));
        }
  return y;
}

auto naive_max(const Window& window) {
  return [window](const std::vector<Tensor>& x) {
    return pooled(x[0], window, [](const Values& under) {
      double largest = -std::numeric_limits<double>::infinity();
      for (double value : under) largest = value > largest || std::isnan(value) ? value : largest;
      return largest;
    });
  };
}

auto naive_average(const Window& window) {
  return [window](const std::vector<Tensor>& x) {
    return pooled(x[0], window, [](const Values& under) {
      double sum = 0;
      for (double value : under) sum += value;
      return sum / static_cast<double>(under.size());
    });
  };
}

constexpr Window kThreeSame{3, 3, 1, 1, Padding::same}, kThreeHalved{3, 3, 2, 2, Padding::same}, kTwoHalved{2, 2, 2, 2, Padding::same};
constexpr Window kFiveThirds{5, 5, 3, 3, Padding::valid}, kWide{1, 4, 1, 3, Padding::same};
constexpr Window kPadded{3, 4, 2, 1, Padding::given, 1, 3};

/// Distinct numbers, so that no two are equal in bf16 either and central differences meet no tie.
InputSpec distinct(const Shape& shape) {
  Values elements;
  for (int64_t i = 0; i < shape.elements(); ++i) elements.push_back(static_cast<double>(i * 37 % 251) / 16 - 5);
  return values(shape, elements);
}

}  // namespace

OP_CASES(max_pool2d) {
  const auto run = [](const Window& window) { return [window](const auto& x) { return max_pool2d(x[0], window); }; };
  const auto pool = [&](std::string name, InputSpec x, const Window& window) {
    add({.name = std::move(name), .inputs = {std::move(x)}, .run = run(window), .expect = naive_max(window)});
  };
  pool("same", distinct({1, 4, 5, 8}), kThreeSame);
  pool("even", distinct({2, 4, 6, 3}), kThreeHalved);
  pool("odd", distinct({2, 5, 3, 8}), kThreeHalved);
  pool("two", distinct({1, 5, 4, 16}), kTwoHalved);
  pool("valid", distinct({1, 8, 9, 2}), kFiveThirds);
  pool("wide", distinct({1, 3, 7, 9}), kWide);
  pool("padded", distinct({1, 4, 5, 8}), kPadded);
  pool("one_pixel", distinct({3, 1, 1, 5}), kThreeSame);
  pool("many_taps", distinct({1, 520, 1, 1}), {64, 1});  // more than are listed for all images
  pool("no_samples", randn({0, 4, 4, 8}), kThreeSame);
  pool("view", transposed(distinct({1, 5, 4, 3}), 1, 2), kThreeSame);
  add({.name = "many_channels",
       .inputs = {randn({1, 3, 3, 300})},
       .run = run(kThreeSame),
       .expect = naive_max(kThreeSame),
       .gradient = false});
  const double nan = std::nan("");
  add({.name = "nan_and_infinity",
       .inputs = {values({1, 2, 3, 1}, {1, nan, -INFINITY, -INFINITY, INFINITY, -INFINITY})},
       .run = run(kTwoHalved),
       .expect = naive_max(kTwoHalved),
       .gradient = false});
  add({.name = "small_image", .inputs = {randn({1, 4, 4, 1})}, .run = run(kFiveThirds), .throws = "needs images of at least 5 x 5"});
  add({.name = "matrix", .inputs = {randn({4, 4})}, .run = run(kThreeSame), .throws = "needs images"});
  add({.name = "many_places", .inputs = {randn({1, 20, 20, 1})}, .run = run({17, 17}), .throws = "at most 256 places"});
  add({.name = "resnet", .inputs = {randn({32, 112, 112, 64})}, .run = run(kThreeHalved), .bench = true});
  add({.name = "unet", .inputs = {randn({4, 192, 192, 64})}, .run = run(kTwoHalved), .bench = true});
  add({.name = "amoebanet", .inputs = {randn({32, 28, 28, 128})}, .run = run(kThreeSame), .bench = true});
}

OP_CASES(average_pool2d) {
  const auto run = [](const Window& window) { return [window](const auto& x) { return average_pool2d(x[0], window); }; };
  const auto pool = [&](std::string name, InputSpec x, const Window& window) {
    add({.name = std::move(name), .inputs = {std::move(x)}, .run = run(window), .expect = naive_average(window)});
  };
  pool("same", randn({1, 4, 5, 8}), kThreeSame);
  pool("even", randn({2, 4, 6, 3}), kThreeHalved);
  pool("odd", randn({2, 5, 3, 8}), kThreeHalved);
  pool("valid", randn({1, 8, 9, 2}), kFiveThirds);
  pool("wide", randn({1, 3, 7, 9}), kWide);
  pool("one_pixel", randn({3, 1, 1, 5}), kThreeSame);
  pool("no_samples", randn({0, 4, 4, 8}), kThreeSame);
  pool("view", transposed(randn({1, 5, 4, 3}), 1, 2), kThreeSame);
  add({.name = "many_channels",
       .inputs = {randn({1, 3, 3, 300})},
       .run = run(kThreeSame),
       .expect = naive_average(kThreeSame),
       .gradient = false});
  add({.name = "no_stride", .inputs = {randn({1, 4, 4, 1})}, .run = run({2, 2, 0, 1}), .throws = "strides of at least 1"});
  add({.name = "amoebanet", .inputs = {randn({32, 28, 28, 128})}, .run = run(kThreeSame), .bench = true});
}

OP_CASES(global_average_pool) {
  const auto run = [](const auto& x) { return global_average_pool(x[0]); };
  const auto expect = [](const std::vector<Tensor>& x) {
    return pooled(x[0], {x[0].dim(1), x[0].dim(2), 1, 1, Padding::valid}, [](const Values& under) {
      double sum = 0;
      for (double value : under) sum += value;
      return sum / static_cast<double>(under.size());
    });
  };
  add({.name = "images", .inputs = {randn({2, 3, 5, 7})}, .run = run, .expect = expect});
  add({.name = "matrix", .inputs = {randn({2, 3})}, .run = run, .throws = "needs images"});
  add({.name = "resnet", .inputs = {randn({32, 7, 7, 2048})}, .run = run, .bench = true});
}

namespace {

/// Of x [b, h, w, c], with the windows of PyTorch's documentation.
auto naive_adaptive(int64_t height, int64_t width) {
  return [=](const std::vector<Tensor>& x) {
    const Values from = x[0].to_vector();
    const int64_t in_h = x[0].dim(1), in_w = x[0].dim(2), channels = x[0].dim(3);
    const auto first = [](int64_t i, int64_t in, int64_t out) {
      return static_cast<int64_t>(std::floor(static_cast<double>(i * in) / static_cast<double>(out)));
    };
    const auto end = [](int64_t i, int64_t in, int64_t out) {
      return static_cast<int64_t>(std::ceil(static_cast<double>((i + 1) * in) / static_cast<double>(out)));
    };
    Values y;
    for (int64_t b = 0; b < x[0].dim(0); ++b)
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j)
          for (int64_t c = 0; c < channels; ++c) {
            double sum = 0, count = 0;
            for (int64_t h = first(i, in_h, height); h < end(i, in_h, height); ++h)
              for (int64_t w = first(j, in_w, width); w < end(j, in_w, width); ++w, ++count)
                sum += from[((b * in_h + h) * in_w + w) * channels + c];
            y.push_back(sum / count);
          }
    return y;
  };
}

}  // namespace

OP_CASES(adaptive_average_pool2d) {
  const auto to = [](int64_t height, int64_t width) {
    return [=](const std::vector<Var>& x) { return adaptive_average_pool2d(x[0], height, width); };
  };
  const auto pool = [&](std::string name, InputSpec x, int64_t height, int64_t width) {
    add({.name = std::move(name), .inputs = {std::move(x)}, .run = to(height, width), .expect = naive_adaptive(height, width)});
  };
  pool("divided", randn({2, 6, 8, 3}), 3, 2);
  pool("overlapping", randn({2, 7, 5, 3}), 3, 4);
  pool("overlapping_packs", randn({1, 5, 7, 16}), 3, 2);
  pool("more_places", randn({1, 3, 2, 9}), 7, 5);
  pool("more_and_fewer", randn({2, 3, 7, 8}), 5, 2);
  pool("same", randn({1, 4, 3, 5}), 4, 3);
  pool("one_place", randn({2, 7, 5, 3}), 1, 1);
  pool("one_row", randn({2, 7, 5, 3}), 1, 3);
  pool("one_pixel", randn({2, 1, 1, 5}), 3, 2);
  pool("no_samples", randn({0, 4, 4, 8}), 3, 3);
  pool("view", transposed(randn({1, 5, 4, 3}), 1, 2), 3, 2);
  pool("misaligned", misaligned({1, 5, 4, 16}), 3, 2);
  add({.name = "no_image", .inputs = {randn({4, 4, 8})}, .run = to(2, 2), .throws = "needs images [batch, height, width, channels]"});
  add({.name = "no_pixels", .inputs = {randn({2, 0, 4, 8})}, .run = to(2, 2), .throws = "with pixels, got [2, 0, 4, 8]"});
  add({.name = "no_places", .inputs = {randn({1, 4, 4, 8})}, .run = to(0, 2), .throws = "a size of at least 1 x 1, got 0 x 2"});
  add({.name = "too_many_places",
       .inputs = {randn({0, 4, 4, 8})},
       .run = to(INT64_MAX, 2),
       .throws = "fewer than 2^32 pixels times places along an axis, got 4 and 9223372036854775807"});
  add({.name = "indices",
       .inputs = {indices({1, 2, 2, 1}, 3)},
       .run = to(1, 2),
       .throws = "adaptive_average_pool2d: needs a floating dtype"});
  add({.name = "vgg", .inputs = {randn({8, 14, 14, 512})}, .run = to(7, 7), .bench = true});
  add({.name = "pyramid", .inputs = {randn({4, 32, 32, 512})}, .run = to(6, 6), .bench = true});
}
