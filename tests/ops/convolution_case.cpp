#include "autograd/ops/convolution.h"
#include "core/ops/concat.h"
#include "core/ops/convolution.h"
#include "core/ops/copy.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Where a window lies, with all that is between its places.
WindowPlan plan_of_all(const Shape& x, Window window) {
  window.size_h = window.dilation_h * (window.size_h - 1) + 1, window.size_w = window.dilation_w * (window.size_w - 1) + 1;
  window.dilation_h = window.dilation_w = 1;
  return plan_of("test", x, window);
}

/// Calls f(x index, weight index, y index) for every product of a convolution, by plain loops.
template <class F>
void each_product(const Shape& x, const Shape& weight, const Window& window, int64_t groups, const F& f) {
  const WindowPlan plan = plan_of_all(x, window);
  const int64_t run = weight[3], outputs = weight[0];
  for (int64_t image = 0; image < plan.batch; ++image)
    for (int64_t i = 0; i < plan.out_h; ++i)
      for (int64_t j = 0; j < plan.out_w; ++j)
        for (int64_t o = 0; o < outputs; ++o)
          for (int64_t r = 0; r < window.size_h; ++r)
            for (int64_t s = 0; s < window.size_w; ++s)
              for (int64_t c = 0; c < run; ++c) {
                const int64_t row = i * window.stride_h - plan.before_h + r * window.dilation_h;
                const int64_t column = j * window.stride_w - plan.before_w + s * window.dilation_w;
                if (row < 0 || row >= x[1] || column < 0 || column >= x[2]) continue;
                const int64_t channel = o / (outputs / groups) * run + c;
                f(((image * x[1] + row) * x[2] + column) * x[3] + channel, ((o * window.size_h + r) * window.size_w + s) * run + c,
                  ((image * plan.out_h + i) * plan.out_w + j) * outputs + o);
              }
}

auto convolved(const Window& window, int64_t groups) {
  return [=](const std::vector<Var>& x) { return conv2d(x[0], x[1], window, groups); };
}

auto reference(const Window& window, int64_t groups) {
  return [=](const std::vector<Tensor>& x) {
    const Values in = x[0].to_vector(), weight = x[1].to_vector();
    Values y(plan_of_all(x[0].shape(), window).output(x[1].dim(0)).elements());
    each_product(x[0].shape(), x[1].shape(), window, groups, [&](int64_t a, int64_t b, int64_t c) { y[c] += in[a] * weight[b]; });
    return y;
  };
}

/// Both gradients as values, one after the other, from x, weight and dy.
auto gradients(const Window& window, int64_t groups) {
  return [=](const std::vector<Var>& x) {
    const Tensor &in = x[0].value(), &weight = x[1].value(), &dy = x[2].value();
    const Tensor dx = conv2d_input_gradient(dy, weight, in.shape(), window, groups);
    const Tensor dweight = conv2d_weight_gradient(dy, in, weight.shape(), window, groups);
    return Var(concat({cast(dx, dweight.dtype()).reshape({dx.elements()}), dweight.reshape({dweight.elements()})}, 0));
  };
}

auto reference_gradients(const Window& window, int64_t groups) {
  return [=](const std::vector<Tensor>& x) {
    const Values in = x[0].to_vector(), weight = x[1].to_vector(), dy = x[2].to_vector();
    Values dx(in.size()), dweight(weight.size());
    each_product(x[0].shape(), x[1].shape(), window, groups, [&](int64_t a, int64_t b, int64_t c) {
      dx[a] += dy[c] * weight[b];
      dweight[b] += dy[c] * in[a];
    });
    dx.insert(dx.end(), dweight.begin(), dweight.end());
    return dx;
  };
}

constexpr Padding kValid = Padding::valid, kGiven = Padding::given;

OpCase convolution_case(const char* name, const Shape& x, const Window& window, int64_t outputs, int64_t groups) {
  return {.name = name,
          .inputs = {randn(x), randn({outputs, window.size_h, window.size_w, x[3] / groups})},
          .run = convolved(window, groups),
          .expect = reference(window, groups),
          .tolerance_scale = 2};
}

}  // namespace

OP_CASES(convolution) {
  const auto check = [&](const char* name, const Shape& x, const Window& window, int64_t outputs, int64_t groups = 1) {
    add(convolution_case(name, x, window, outputs, groups));
  };
  check("3x3", {2, 5, 6, 3}, {3, 3}, 4);
  check("3x3_valid", {2, 5, 6, 3}, {3, 3, 1, 1, kValid}, 4);
  check("1x1", {2, 3, 4, 5}, {1, 1}, 3);
  check("1x1_stride_2", {2, 4, 5, 3}, {1, 1, 2, 2}, 4);
  check("1x7", {1, 4, 9, 2}, {1, 7}, 3);
  check("7x1", {1, 9, 4, 2}, {7, 1}, 3);
  check("1x7_stride_of_columns", {1, 3, 8, 2}, {1, 7, 1, 2}, 2);
  check("7x1_stride_of_rows", {1, 8, 3, 2}, {7, 1, 2, 1}, 2);
  check("stride_2_on_even", {1, 6, 8, 2}, {3, 3, 2, 2}, 3);
  check("stride_2_on_odd", {1, 7, 5, 2}, {3, 3, 2, 2}, 3);
  check("stride_2_valid_leaves_pixels_out", {1, 6, 8, 2}, {3, 3, 2, 2, kValid}, 3);
  check("stride_beyond_the_window", {1, 8, 7, 2}, {2, 2, 3, 3}, 2);
  check("window_beyond_the_image", {2, 2, 3, 2}, {7, 7}, 2);
  check("window_beyond_the_image_stride_2", {1, 3, 2, 2}, {5, 7, 2, 2}, 2);
  // As many channels as a library takes.
  check("row_beyond_the_image", {3, 2, 2, 16}, {1, 7}, 16);
  check("column_beyond_the_image", {3, 2, 2, 16}, {7, 1}, 16);
  check("square_beyond_the_image", {2, 3, 2, 16}, {7, 7}, 32);
  check("row_beyond_the_image_stride_2", {2, 3, 2, 16}, {5, 7, 2, 2}, 16);
  check("row_beyond_the_padded_image", {2, 1, 2, 16}, {3, 5, 1, 2, kGiven, 2, 4}, 16);
  check("padding_1", {2, 5, 6, 3}, {3, 3, 1, 1, kGiven, 1, 1}, 4);
  check("padding_1_stride_2", {2, 6, 7, 3}, {3, 3, 2, 2, kGiven, 1, 1}, 4);
  check("padding_3_of_7_stride_2", {1, 8, 9, 2}, {7, 7, 2, 2, kGiven, 3, 3}, 3);
  check("padding_of_columns", {1, 5, 4, 2}, {2, 4, 1, 1, kGiven, 0, 3}, 2);
  check("padding_larger_than_the_image", {2, 1, 2, 2}, {3, 5, 1, 2, kGiven, 2, 4}, 3);
  check("padding_of_groups", {2, 4, 5, 6}, {3, 3, 1, 1, kGiven, 2, 1}, 4, 2);
  check("padding_of_depthwise", {2, 6, 5, 4}, {3, 3, 1, 1, kGiven, 2, 0}, 4, 4);
  check("padding_of_depthwise_stride_2", {1, 6, 5, 4}, {3, 3, 2, 2, kGiven, 1, 2}, 4, 4);
  check("one_pixel", {3, 1, 1, 4}, {3, 3}, 2);
  check("one_channel", {2, 5, 5, 1}, {3, 3}, 3);
  check("one_output", {2, 5, 5, 3}, {3, 3}, 1);
  check("even_window", {1, 5, 4, 2}, {2, 4}, 2);
  check("groups", {2, 4, 5, 6}, {3, 3}, 4, 2);
  check("groups_of_1x1", {2, 3, 3, 6}, {1, 1}, 9, 3);
  check("no_images", {0, 4, 4, 2}, {3, 3}, 2);
  check("depthwise_with_two_outputs_a_channel", {1, 4, 4, 3}, {3, 3}, 6, 3);
  add({.name = "view",
       .inputs = {sliced(transposed(randn({2, 6, 5, 4}), 1, 2), 3, 1, 3), transposed(randn({3, 2, 3, 3}), 1, 3)},
       .run = convolved({3, 3}, 1),
       .expect = reference({3, 3}, 1),
       .tolerance_scale = 2});

  const auto refuse = [&](const char* name, const Shape& x, const Shape& weight, const Window& window, int64_t groups,
                          const char* message) {
    add({.name = name, .inputs = {randn(x), randn(weight)}, .run = convolved(window, groups), .throws = message});
  };
  refuse("rank", {4, 4, 3}, {2, 3, 3, 3}, {3, 3}, 1, "needs x [batch, height, width, channels]");
  refuse("channels", {1, 4, 4, 3}, {2, 3, 3, 4}, {3, 3}, 1, "got [1, 4, 4, 3] and [2, 3, 3, 4]");
  refuse("groups_that_do_not_divide", {1, 4, 4, 4}, {3, 3, 3, 2}, {3, 3}, 2, "multiples of 2 groups");
  refuse("window_of_another_weight", {1, 4, 4, 3}, {2, 5, 5, 3}, {3, 3}, 1, "weight [outputs, 3, 3");
  refuse("valid_window_beyond_the_image", {1, 4, 2, 3}, {2, 3, 3, 3}, {3, 3, 1, 1, kValid}, 1, "images of at least 3 x 3");
  refuse("padding_as_large_as_the_window", {1, 4, 4, 3}, {2, 3, 3, 3}, {3, 3, 1, 1, kGiven, 3, 0}, 1, "below the window of 3 x 3");
  refuse("negative_padding", {1, 4, 4, 3}, {2, 3, 3, 3}, {3, 3, 1, 1, kGiven, 0, -1}, 1, "got 0 and -1");
  refuse("padding_that_is_not_given", {1, 4, 4, 3}, {2, 3, 3, 3}, {3, 3, 1, 1, kValid, 1, 1}, 1, "got `valid`");
  refuse("padded_image_below_the_window", {1, 2, 4, 3}, {2, 5, 3, 3}, {5, 3, 1, 1, kGiven, 1, 0}, 1, "images of at least 3 x 3");
  refuse("no_stride", {1, 4, 4, 3}, {2, 3, 3, 3}, {3, 3, 0, 1}, 1, "strides of at least 1");

  const auto row = [&](const char* name, const Shape& x, const Window& window, int64_t outputs, int64_t groups = 1) {
    add({.name = name,
         .inputs = {randn(x), randn({outputs, window.size_h, window.size_w, x[3] / groups})},
         .run = convolved(window, groups),
         .bench = true});
  };
  // AmoebaNet-D (6, 64) at 64 pixels: its stem, and a bottleneck of each resolution.
  row("amoebanet_stem", {32, 64, 64, 3}, {3, 3, 2, 2, kValid}, 32);
  row("amoebanet_1x1", {32, 8, 8, 256}, {1, 1}, 64);
  row("amoebanet_1x7", {32, 8, 8, 16}, {1, 7}, 16);
  row("amoebanet_7x1", {32, 8, 8, 16}, {7, 1}, 16);
  row("amoebanet_1x7_stride_2", {32, 16, 16, 16}, {1, 7, 1, 2}, 16);
  row("amoebanet_3x3_stride_2", {32, 16, 16, 16}, {3, 3, 2, 2}, 16);
  // ResNet-50 at 224 pixels.
  row("resnet_stem", {4, 224, 224, 3}, {7, 7, 2, 2}, 64);
  row("resnet_3x3_56", {4, 56, 56, 64}, {3, 3}, 64);
  row("resnet_3x3_28", {4, 28, 28, 128}, {3, 3}, 128);
  row("resnet_3x3_14", {4, 14, 14, 256}, {3, 3}, 256);
  row("resnet_3x3_7", {4, 7, 7, 512}, {3, 3}, 512);
  row("resnet_1x1_56", {4, 56, 56, 256}, {1, 1}, 64);
  row("resnet_1x1_stride_2", {4, 56, 56, 256}, {1, 1, 2, 2}, 512);
  row("resnet_3x3_stride_2", {4, 56, 56, 128}, {3, 3, 2, 2}, 128);
  row("resnet_1x1_expand_56", {4, 56, 56, 64}, {1, 1}, 256);
  row("resnet_1x1_expand_14", {4, 14, 14, 256}, {1, 1}, 1024);
  row("resnet_1x1_7", {4, 7, 7, 2048}, {1, 1}, 512);
  // U-Net of 64 filters at 192 pixels: its first level, and the first convolution of the decoder's last.
  row("unet_3x3_192", {1, 192, 192, 64}, {3, 3}, 64);
  row("unet_3x3_joined_192", {1, 192, 192, 128}, {3, 3}, 32);
}

OP_CASES(depthwise) {
  const auto check = [&](const char* name, const Shape& x, const Window& window) {
    add({.name = name,
         .inputs = {randn(x), randn({x[3], window.size_h, window.size_w, 1})},
         .run = convolved(window, x[3]),
         .expect = reference(window, x[3]),
         .tolerance_scale = 2});
  };
  check("3x3", {2, 5, 7, 3}, {3, 3});
  check("3x3_of_packs", {1, 4, 13, 8}, {3, 3});
  check("3x3_valid", {1, 5, 6, 3}, {3, 3, 1, 1, kValid});
  check("5x5", {1, 6, 7, 2}, {5, 5});
  check("7x7", {1, 8, 9, 2}, {7, 7});
  check("3x3_stride_2_on_even", {1, 6, 8, 4}, {3, 3, 2, 2});
  check("3x3_stride_2_on_odd", {1, 7, 5, 3}, {3, 3, 2, 2});
  check("5x5_stride_2", {1, 8, 12, 2}, {5, 5, 2, 2});
  check("7x7_stride_2", {1, 9, 14, 2}, {7, 7, 2, 2});
  check("stride_2_valid", {1, 7, 10, 2}, {3, 3, 2, 2, kValid});
  check("window_beyond_the_image", {2, 2, 3, 2}, {7, 7});
  check("window_beyond_the_image_stride_2", {1, 3, 2, 3}, {5, 5, 2, 2});
  check("1x5", {1, 3, 9, 2}, {1, 5});
  check("2x4", {1, 5, 6, 2}, {2, 4});
  check("stride_3", {1, 7, 8, 2}, {3, 3, 3, 3});
  check("strides_that_differ", {1, 6, 7, 2}, {3, 3, 2, 1});
  check("one_channel", {2, 5, 5, 1}, {3, 3});
  check("no_images", {0, 4, 4, 2}, {3, 3});

  const auto row = [&](const char* name, const Shape& x, const Window& window) {
    add({.name = name,
         .inputs = {randn(x), randn({x[3], window.size_h, window.size_w, 1})},
         .run = convolved(window, x[3]),
         .bench = true});
  };
  row("3x3_C128", {16, 32, 32, 128}, {3, 3});
  row("5x5_C128", {16, 32, 32, 128}, {5, 5});
  row("7x7_C128", {16, 32, 32, 128}, {7, 7});
  row("amoebanet_b_3x3", {32, 8, 8, 64}, {3, 3});
  row("amoebanet_b_3x3_stride_2", {32, 16, 16, 64}, {3, 3, 2, 2});
}

// Sizes that central differences cannot serve: several pieces, chunks, blocks of columns and registers of channels.
OP_CASES(convolution_gradients) {
  const auto check = [&](const char* name, const Shape& x, const Window& window, int64_t outputs, int64_t groups = 1) {
    const std::vector<InputSpec> inputs{randn(x), randn({outputs, window.size_h, window.size_w, x[3] / groups})};
    add({.name = name,
         .inputs = inputs,
         .run = convolved(window, groups),
         .expect = reference(window, groups),
         .gradient = false,
         .tolerance_scale = 4});
    add({.name = join(name, "_backward"),
         .inputs = {inputs[0], inputs[1], randn(plan_of("test", x, window).output(outputs))},
         .run = gradients(window, groups),
         .expect = reference_gradients(window, groups),
         .gradient = false,
         .tolerance_scale = 8});
  };
  check("several_pieces", {11, 20, 21, 3}, {3, 3}, 5);
  check("packs_of_channels", {3, 12, 12, 16}, {3, 3}, 32);
  check("channels_between_registers", {2, 9, 10, 13}, {1, 7}, 26);
  check("deep", {2, 5, 5, 70}, {3, 3, 2, 2}, 33);
  check("columns_of_some_images_at_a_time", {4, 40, 40, 16}, {7, 7}, 2);
  check("stem", {2, 31, 33, 3}, {3, 3, 2, 2, kValid}, 32);
  const auto depthwise = [&](const char* name, const Shape& x, const Window& window) { check(name, x, window, x[3], x[3]); };
  depthwise("depthwise_3x3", {9, 17, 19, 40}, {3, 3});
  depthwise("depthwise_5x5", {2, 16, 16, 32}, {5, 5});
  depthwise("depthwise_7x7", {2, 14, 15, 24}, {7, 7});
  depthwise("depthwise_3x3_stride_2", {3, 32, 31, 16}, {3, 3, 2, 2});
  depthwise("depthwise_5x5_stride_2", {2, 20, 22, 19}, {5, 5, 2, 2});
  depthwise("depthwise_7x7_stride_2", {2, 20, 37, 8}, {7, 7, 2, 2});
  depthwise("depthwise_wide", {1, 3, 5, 300}, {3, 3});
}

OP_CASES(conv_transpose2d) {
  const auto check = [&](const char* name, const Shape& x, const Window& window, int64_t outputs, const Shape& y, int64_t groups = 1) {
    const auto expect = [=](const std::vector<Tensor>& inputs) {
      const Values in = inputs[0].to_vector(), weight = inputs[1].to_vector();
      Values result(y.elements());
      each_product(y, inputs[1].shape(), window, groups, [&](int64_t a, int64_t b, int64_t c) { result[a] += in[c] * weight[b]; });
      return result;
    };
    add({.name = name,
         .inputs = {randn(x), randn({x[3], window.size_h, window.size_w, outputs / groups})},
         .run = [=](const std::vector<Var>& inputs) { return conv_transpose2d(inputs[0], inputs[1], window, groups); },
         .expect = expect,
         .tolerance_scale = 2});
  };
  check("same_stride_2", {2, 3, 4, 3}, {3, 3, 2, 2}, 4, {2, 6, 8, 4});
  check("valid", {2, 3, 4, 3}, {3, 2, 1, 1, kValid}, 4, {2, 5, 5, 4});
  check("2x2_stride_2", {1, 3, 2, 4}, {2, 2, 2, 2, kValid}, 2, {1, 6, 4, 2});
  check("padding_1_of_4_stride_2", {2, 3, 3, 2}, {4, 4, 2, 2, kGiven, 1, 1}, 3, {2, 6, 6, 3});
  check("1x1", {2, 3, 4, 5}, {1, 1}, 3, {2, 3, 4, 3});
  check("groups", {1, 3, 3, 4}, {3, 3, 2, 2, kGiven, 1, 0}, 6, {1, 5, 7, 6}, 2);
  check("depthwise", {1, 4, 3, 4}, {3, 3, 2, 2}, 4, {1, 8, 6, 4}, 4);
  const auto refuse = [&](const char* name, const Shape& x, const Shape& weight, const Window& window, const char* message) {
    add({.name = name,
         .inputs = {randn(x), randn(weight)},
         .run = [=](const std::vector<Var>& inputs) { return conv_transpose2d(inputs[0], inputs[1], window); },
         .throws = message});
  };
  refuse("channels", {1, 4, 4, 3}, {2, 3, 3, 4}, {3, 3}, "got [1, 4, 4, 3] and [2, 3, 3, 4]");
  refuse("padding_that_leaves_nothing", {1, 1, 2, 3}, {3, 3, 3, 4}, {3, 3, 1, 1, kGiven, 2, 1}, "leaves pixels, got -1 x 2");
}

OP_CASES(dilated_convolution) {
  const auto check = [&](const char* name, const Shape& x, const Window& window, int64_t outputs, int64_t groups = 1) {
    add(convolution_case(name, x, window, outputs, groups));
  };
  const auto wide = [](int64_t size_h, int64_t size_w, int64_t dilation_h, int64_t dilation_w, Padding padding = Padding::same,
                       int64_t stride = 1,
                       int64_t pad = 0) { return Window{size_h, size_w, stride, stride, padding, pad, pad, dilation_h, dilation_w}; };
  check("twice", {2, 7, 6, 3}, wide(3, 3, 2, 2), 4);
  check("twice_valid", {2, 7, 6, 3}, wide(3, 3, 2, 2, kValid), 4);
  check("twice_padding_1", {2, 5, 6, 3}, wide(3, 3, 2, 2, kGiven, 1, 1), 4);
  check("of_rows", {1, 9, 3, 2}, wide(3, 2, 3, 1), 2);
  check("of_columns", {1, 3, 9, 2}, wide(1, 4, 1, 2, kValid), 2);
  check("twice_stride_2", {1, 8, 9, 2}, wide(3, 3, 2, 2, Padding::same, 2), 3);
  check("thrice_stride_2_valid", {1, 8, 9, 2}, wide(2, 3, 3, 3, kValid, 2), 3);
  check("beyond_the_image", {2, 3, 2, 2}, wide(3, 3, 4, 4), 2);
  check("of_groups", {2, 5, 5, 6}, wide(3, 3, 2, 2), 4, 2);
  check("of_depthwise", {1, 5, 6, 4}, wide(3, 3, 2, 2), 4, 4);
  check("of_no_images", {0, 5, 6, 4}, wide(3, 3, 2, 2), 4);
  const auto refuse = [&](const char* name, const Window& window, const char* message) {
    add({.name = name, .inputs = {randn({1, 4, 4, 3}), randn({2, 3, 3, 3})}, .run = convolved(window, 1), .throws = message});
  };
  refuse("no_dilation", wide(3, 3, 0, 2), "without dilation, got 0 x 2");
  refuse("valid_beyond_the_image", wide(3, 3, 2, 2, kValid), "images of at least 5 x 5");
}
