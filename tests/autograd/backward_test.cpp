#include "autograd/backward.h"

#include <gtest/gtest.h>

#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

TEST(Backward, AddsTheContributionsOfEveryUse) {
  const Var x = Var::input(tensor_of({2, 3}, {2}, DType::f64));
  const Var y = add(mul(x, x), scale(x, 5));
  EXPECT_EQ(gradients(y, full({2}, 1, DType::f64), {x})[0].to_vector(), (std::vector<double>{9, 11}));
}

TEST(Backward, RecordsNothingForConstants) {
  const Var y = exp(Var(full({3}, 1)));
  EXPECT_EQ(y.node(), nullptr);
  expect_error<UsageError>([&] { Backward(y, full({3}, 1)); }, {"depends on an input or parameter leaf"});
}

TEST(Backward, RefusesAGradientOfAnotherShape) {
  const Var y = exp(Var::input(full({3}, 1)));
  expect_error<UsageError>([&] { Backward(y, full({4}, 1)); }, {"[3]", "[4]"});
}

TEST(Backward, ComputesInputsFirstAndWeightsLater) {
  const Var x = Var::input(full({2, 3}, 1, DType::f64)), w = Var::parameter(full({4, 3}, 2, DType::f64));
  Backward backward(linear(x, w), full({2, 4}, 1, DType::f64));
  expect_error<UsageError>([&] { backward.run_weights(); }, {"run_inputs"});
  backward.run_inputs();
  EXPECT_EQ(backward.take(x).to_vector(), std::vector<double>(6, 8));
  EXPECT_FALSE(backward.take(w).defined());
  backward.run_weights();
  EXPECT_EQ(backward.take(w).to_vector(), std::vector<double>(12, 2));
}

TEST(Backward, LetsGoOfWhatWasSaved) {
  const auto device = make_device("cpu:0");
  const Var x = Var::input(full({1024}, 1, DType::f32, device));
  Var y = exp(exp(exp(x)));
  Backward backward(y.node(), full({1024}, 1, DType::f32, device));
  y = Var();
  backward.run();
  backward.take(x);
  EXPECT_EQ(device->live_bytes(), 4096) << "only x is left";
}

TEST(Backward, WritesTheGradientOfCrossEntropyOverLogitsThatNothingElseHolds) {
  const auto device = make_device("cpu:0");
  const Var x = Var::input(tensor_of({1, -2, 3, 0.5, 0, -1}, {2, 3}, DType::f32, device));
  const auto gradient = [&](bool hold_logits) {
    Var logits = neg(x);
    const Var loss = cross_entropy(logits, tensor_of({2, 0}, {2}, DType::i32, device), {.label_smoothing = 0.1});
    if (!hold_logits) logits = Var();
    device->reset_peak();
    return gradients(loss, full({}, 1, DType::f32, device), {x})[0].to_vector();
  };
  const auto held = gradient(true);
  const int64_t peak_with_held = device->peak_bytes();
  EXPECT_EQ(gradient(false), held);
  EXPECT_EQ(device->peak_bytes(), peak_with_held - Device::charged_size(6 * sizeof(float)));
}

}  // namespace
}  // namespace sluice
