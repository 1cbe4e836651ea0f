#include <cmath>

#include "autograd/ops/batch_norm.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double kEpsilon = 1e-3;

double mean_of(const Values& x, size_t channel, size_t channels) {
  double sum = 0;
  for (size_t i = channel; i < x.size(); i += channels) sum += x[i];
  return sum * static_cast<double>(channels) / static_cast<double>(x.size());
}

double variance_of(const Values& x, size_t channel, size_t channels) {
  const double mean = mean_of(x, channel, channels);
  Values squares(x.size());
  for (size_t i = channel; i < x.size(); i += channels) squares[i] = (x[i] - mean) * (x[i] - mean);
  return mean_of(squares, channel, channels);
}

/// A running mean and variance that no test changes.
double running_mean(size_t channel) { return 0.25 * static_cast<double>(channel % 5) - 0.5; }
double running_variance(size_t channel) { return 0.5 + 0.25 * static_cast<double>(channel % 3); }

Values naive_norm(const std::vector<Tensor>& inputs, bool constant, bool relu) {
  const Values x = inputs[0].to_vector(), gamma = inputs[1].to_vector(), beta = inputs[2].to_vector();
  const size_t channels = gamma.size();
  Values y(x.size());
  for (size_t c = 0; c < channels; ++c) {
    const double mean = constant ? running_mean(c) : mean_of(x, c, channels);
    const double rstd = 1 / std::sqrt((constant ? running_variance(c) : variance_of(x, c, channels)) + kEpsilon);
    for (size_t i = c; i < x.size(); i += channels) {
      const double value = (x[i] - mean) * rstd * gamma[c] + beta[c];
      y[i] = relu && value < 0 ? 0 : value;
    }
  }
  return y;
}
auto expect(bool constant, bool relu) {
  return [=](const std::vector<Tensor>& inputs) { return naive_norm(inputs, constant, relu); };
}

Var normalize(const std::vector<Var>& x, bool relu) { return batch_norm(x[0], x[1], x[2], kEpsilon, relu).y; }

Var normalize_with_running(const std::vector<Var>& x, bool relu) {
  const auto channels = static_cast<size_t>(x[1].dim(0));
  Values mean, variance;
  for (size_t c = 0; c < channels; ++c) {
    mean.push_back(running_mean(c));
    variance.push_back(running_variance(c));
  }
  const Tensor& like = x[1].value();
  const auto constant = [&](const Values& elements) { return tensor_of(elements, like.shape(), DType::f32, like.device_ptr()); };
  return batch_norm_inference(x[0], x[1], x[2], constant(mean), constant(variance), kEpsilon, relu);
}

std::vector<InputSpec> with(InputSpec x, int64_t channels) { return {std::move(x), randn({channels}), randn({channels})}; }

}  // namespace

OP_CASES(batch_norm) {
  const auto run = [](const std::vector<Var>& x) { return normalize(x, false); };
  const auto relu = [](const std::vector<Var>& x) { return normalize(x, true); };
  const auto plain = expect(false, false), cut = expect(false, true);
  add({.name = "images", .inputs = with(randn({2, 3, 2, 8}), 8), .run = run, .expect = plain});
  add({.name = "images_relu", .inputs = with(randn({2, 3, 2, 8}), 8), .run = relu, .expect = cut});
  add({.name = "odd", .inputs = with(randn({3, 1, 5, 7}), 7), .run = run, .expect = plain});
  add({.name = "short_gamma", .inputs = with(randn({4, 9}), 1), .run = run, .throws = "needs gamma f32 [9]"});
  add({.name = "vector_of_one_channel", .inputs = with(randn({40, 1}), 1), .run = run, .expect = plain});
  add({.name = "several_chunks", .inputs = with(randn({600, 3}), 3), .run = run, .expect = plain, .gradient = false});
  add({.name = "chunks_with_gradient", .inputs = with(randn({270, 2}), 2), .run = relu, .expect = cut});
  add({.name = "several_blocks_of_columns", .inputs = with(randn({70, 520}), 520), .run = relu, .expect = cut, .gradient = false});
  // Without gradients: central differences have no digits left beside such a mean, and bf16 none of the numbers themselves.
  add({.name = "large_mean",
       .inputs = with(uniform({300, 4}, 4096, 4097), 4),
       .run = run,
       .expect = plain,
       .gradient = false,
       .low_precision = false,
       .tolerance_scale = 50});
  add({.name = "all_equal", .inputs = with(constant({30, 5}, 1e4), 5), .run = run, .expect = plain, .gradient = false});
  add({.name = "one_row", .inputs = with(randn({1, 6}), 6), .run = run, .expect = plain});
  add({.name = "view", .inputs = with(transposed(randn({5, 3}), 0, 1), 5), .run = run, .expect = plain});
  add({.name = "no_rows", .inputs = with(randn({0, 5}), 5), .run = run, .throws = "at least one element a channel"});
  add({.name = "no_columns", .inputs = with(randn({2, 0}), 0), .run = run, .throws = "with a channel"});
  add({.name = "long_beta", .inputs = {randn({2, 4}), randn({4}), randn({5})}, .run = run, .throws = "needs beta f32 [4]"});
  add({.name = "amoebanet", .inputs = with(randn({32, 28, 28, 128}), 128), .run = run, .bench = true});
  add({.name = "resnet", .inputs = with(randn({32, 56, 56, 64}), 64), .run = relu, .bench = true});
  add({.name = "resnet_wide", .inputs = with(randn({32, 56, 56, 256}), 256), .run = run, .bench = true});
  add({.name = "resnet_deep", .inputs = with(randn({32, 7, 7, 2048}), 2048), .run = relu, .bench = true});
  add({.name = "unet", .inputs = with(randn({4, 192, 192, 64}), 64), .run = relu, .bench = true});
}

OP_CASES(batch_norm_inference) {
  const auto run = [](const std::vector<Var>& x) { return normalize_with_running(x, false); };
  const auto relu = [](const std::vector<Var>& x) { return normalize_with_running(x, true); };
  add({.name = "images", .inputs = with(randn({2, 3, 2, 8}), 8), .run = run, .expect = expect(true, false)});
  add({.name = "odd_relu", .inputs = with(randn({3, 1, 5, 7}), 7), .run = relu, .expect = expect(true, true)});
  add({.name = "no_rows", .inputs = with(randn({0, 5}), 5), .run = run, .expect = expect(true, false)});
  add({.name = "resnet", .inputs = with(randn({32, 56, 56, 64}), 64), .run = relu, .bench = true});
}
