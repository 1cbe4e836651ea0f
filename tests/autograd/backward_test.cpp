#include "autograd/backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "autograd/ops/convolution.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/factorized_reduction.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/normalization.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pooling.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/random.h"
#include "tests/bits.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

using testing::bits_of;

TEST(Backward, AddsTheContributionsOfEveryUse) {
  const Var x = Var::input(tensor_of({2, 3}, {2}, DType::f64));
  const Var y = add(mul(x, x), scale(x, 5));
  EXPECT_EQ(gradients(y, full({2}, 1, DType::f64), {x})[0].to_vector(), (std::vector<double>{9, 11}));
}

TEST(Backward, BeginsWithOneAtALoss) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Var x = Var::parameter(tensor_of({2, 3}, {2}, dtype));
    const Var loss = sum(mul(x, x), {0}, true);
    EXPECT_EQ(gradients(loss, {x})[0].to_vector(), (std::vector<double>{4, 6}));
  }
  const Var x = Var::parameter(tensor_of({2, 3}, {2}, DType::f32));
  expect_error<UsageError>([&] { gradients(mul(x, x), {x}); }, {"gradients: needs a loss of one number, got f32 [2]", "sum it up"});
}

TEST(Backward, AddsGradientsToWhatIsThereWithTheBitsOfAnAddition) {
  using Op = Var (*)(const Var&, const Var&);
  const Op ops[] = {[](const Var& x, const Var& gamma) { return layer_norm(x, gamma, gamma, 1e-5); },
                    [](const Var& x, const Var& gamma) { return rms_norm(x, gamma, 1e-5); },
                    [](const Var& x, const Var&) { return silu(x); },
                    [](const Var& x, const Var&) { return max_pool2d(x, {.size_h = 3, .size_w = 3}); },
                    [](const Var& x, const Var&) { return average_pool2d(x, {.size_h = 3, .size_w = 3}); }};
  const Shape images{2, 5, 3, 300};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Op& op : ops) {
      const auto drawn = [&](const Shape& shape, uint64_t key) {
        const Tensor x = empty(shape);
        fill_normal(x, 0.2, 1.5, key);
        return cast(x, dtype);
      };
      const Tensor dy = drawn(images, 3), sum = drawn(images, 4);
      const Var x = Var::input(drawn(images, 1)), gamma = Var::parameter(drawn({300}, 2));
      const Tensor alone = gradients(op(x, gamma), dy, {x})[0];
      const Var around = Var::input(x.value());
      EXPECT_EQ(bits_of(gradients(add(op(around, gamma), around), dy, {around})[0]), bits_of(add(alone, dy)))
          << name_of(dtype) << " of op " << &op - ops;

      const Var begun = Var::input(x.value());
      Backward backward(op(begun, gamma), dy);
      backward.begin_sum(begun.node(), sum);
      backward.run();
      EXPECT_EQ(bits_of(backward.take(begun)), bits_of(add(alone, sum))) << name_of(dtype) << " of op " << &op - ops;
    }
}

TEST(Backward, AddsToASumThatBeganElsewhereAlsoWhereNoOpTakesIt) {
  const Var x = Var::input(tensor_of({2, 3}, {2}));
  Backward backward(scale(x, 5), full({2}, 1));
  backward.begin_sum(x.node(), full({2}, 0.5));
  backward.run();
  EXPECT_EQ(backward.take(x).to_vector(), (std::vector<double>{5.5, 5.5}));
}

TEST(Backward, AddsTheZerosAroundASliceToASumThatBeganElsewhere) {
  const auto gradient = [](bool begins) {
    const Var x = Var::input(tensor_of({1, 2, 3}, {3}));
    const Tensor sum = tensor_of({-0.0, -0.0, 2}, {3});
    Backward backward(slice(x, 0, 0, 1), full({1}, 1));
    if (begins) backward.begin_sum(x.node(), sum);
    backward.run();
    return begins ? backward.take(x) : add(backward.take(x), sum);
  };
  EXPECT_EQ(bits_of(gradient(true)), bits_of(gradient(false)));
}

TEST(Backward, BeginsASumOfALeafWithOneUseOnceAndOfItsShape) {
  const Var x = Var::input(tensor_of({2, 3}, {2})), unread = Var::input(tensor_of({1}, {1})), once = Var::input(tensor_of({2, 3}, {2}));
  Backward backward(mul(mul(x, x), once), full({2}, 1));
  expect_error<UsageError>([&] { backward.begin_sum(x.node(), full({2}, 1)); }, {"a leaf with one use", "'input' with 2 uses", "take()"});
  expect_error<UsageError>([&] { backward.begin_sum(unread.node(), full({1}, 1)); }, {"a leaf with one use", "'input' with 0 uses"});
  expect_error<UsageError>([&] { backward.begin_sum(nullptr, full({1}, 1)); }, {"a leaf with one use", "'constant'"});
  expect_error<UsageError>([&] { backward.begin_sum(once.node(), full({3}, 1)); }, {"[2]", "[3]"});
  backward.begin_sum(once.node(), full({2}, 1));
  expect_error<UsageError>([&] { backward.begin_sum(once.node(), full({2}, 1)); }, {"already", "add the two"});
  backward.run();
  expect_error<UsageError>([&] { backward.begin_sum(once.node(), full({2}, 1)); }, {"runs once"});
  EXPECT_EQ(backward.take(once).to_vector(), (std::vector<double>{5, 10}));
}

TEST(Backward, MovesBytesForAllSlicesOfATensorInProportionToIt) {
  using RowOf = Var (*)(const Var& x, int64_t i);
  const auto bytes_of = [](int64_t count, RowOf row_of) {
    const auto device = make_device("meta", {.tallies_kernels = true});
    const Var x = Var::input(empty({count, 64}, DType::f32, device));
    Var total = row_of(x, 0);
    for (int64_t i = 1; i < count; ++i) total = add(total, row_of(x, i));
    device->clear_kernels();
    gradients(total, empty(total.shape(), DType::f32, device), {x});
    double bytes = 0;
    for (const auto& [kind, tally] : device->kernels()) bytes += tally.cost.bytes_read + tally.cost.bytes_written;
    return bytes;
  };
  const RowOf ways[] = {[](const Var& x, int64_t i) { return slice(x, 0, i, i + 1); },
                        [](const Var& x, int64_t i) { return slice(x, 0, i, kEnd, x.dim(0)); },
                        [](const Var& x, int64_t i) { return x[i]; }};
  for (const RowOf& row_of : ways) {
    const double few = bytes_of(64, row_of), many = bytes_of(512, row_of);
    EXPECT_LT(many, 8.5 * few) << "way " << &row_of - ways;
  }
}

TEST(Backward, AddsASlicesPartToAGradientThatRepeatsElements) {
  const Var x = Var::input(full({4}, 2));
  const Var y = add(x, pad(slice(x, 0, 0, 2), {{0, 2}}));
  EXPECT_EQ(gradients(y, full({1}, 3).expand({4}), {x})[0].to_vector(), (std::vector<double>{6, 6, 3, 3}));
}

TEST(Backward, RecordsNothingForConstants) {
  const Var y = exp(Var(full({3}, 1)));
  EXPECT_EQ(y.node(), nullptr);
  expect_error<UsageError>([&] { Backward(y, full({3}, 1)); }, {"depends on an input or parameter leaf"});
}

TEST(Backward, RefusesAGradientOfAnotherShape) {
  const Var y = exp(Var::input(full({3}, 1)));
  expect_error<UsageError>([&] { Backward(y, full({4}, 1)); }, {"[3] on cpu:0", "[4]"});
}

TEST(Backward, AddsToTheAccumulatorOfALeafThatIsTheRoot) {
  const Var w = Var::parameter(full({3}, 2, DType::f64));
  Backward backward(w, full({3}, 1, DType::f64));
  w.node()->accumulator = full({3}, 5, DType::f64);
  backward.run();
  EXPECT_EQ(backward.take(w).to_vector(), std::vector<double>(3, 6));
}

TEST(Backward, AddsGradientsOfFewElementsToTheirAccumulatorsInOneKernel) {
  const auto device = make_device("cpu:0", {.tallies_kernels = true});
  const auto of = [&](const Shape& shape, double value) { return full(shape, value, DType::f64, device); };
  const auto parameter = [&](const Shape& shape, double value) {
    Var leaf = Var::parameter(of(shape, value));
    leaf.node()->accumulator = of(shape, 0.5);
    return leaf;
  };
  for (const bool is_split : {false, true}) {
    const Var x = Var::input(of({2, 8192}, 3)), large = parameter({8192}, 1), gain = parameter({1}, 2), bias = parameter({1}, 5),
              twice = parameter({1}, 7);
    const Var y = add(add(mul(mul(x, large), gain), bias), add(twice, twice));
    device->clear_kernels();
    Backward backward(y, of({2, 8192}, 1));
    if (is_split) {
      backward.run_inputs();
      backward.run_weights();
    } else {
      backward.run();
    }
    EXPECT_EQ(device->kernels().at("add_into f64").calls, 1 + 1 + 2) << "gain and bias, the large one, and one that is used twice";
    EXPECT_EQ(backward.take(large).to_vector(), std::vector<double>(8192, 0.5 + 2 * 3 * 2));
    EXPECT_EQ(backward.take(gain).item(), 0.5 + 2 * 8192 * 3);
    EXPECT_EQ(backward.take(bias).item(), 0.5 + 2 * 8192);
    EXPECT_EQ(backward.take(twice).item(), 0.5 + 2 * 2 * 8192);
    EXPECT_TRUE(backward.take(x).defined());
  }
}

/// The gradient of a weight, added to an accumulator that holds other numbers or, without, by a pass.
Tensor summed_gradient(const std::function<Var(const Var&)>& product_by, const Tensor& weight, const Tensor& before, bool by_accumulator) {
  const Var leaf = Var::parameter(weight);
  const Var y = product_by(leaf);
  Backward backward(y, y.value().clone());
  if (by_accumulator) leaf.node()->accumulator = before.clone();
  backward.run();
  const Tensor gradient = backward.take(leaf);
  if (by_accumulator) return gradient;
  Tensor sum = before.clone();
  add_into(sum, gradient);
  return sum;
}

/// What makes a product of a weight, of which only its shape is told.
struct ProductOfWeight {
  const char* name;
  Shape weight;
  std::function<Var(const Var&)> product;
};

/// Few results are not multiplied by tiles in f32, and of many a product is several parts, of rows or of columns.
TEST(Backward, AddsProductsToAccumulatorsWithTheBitsOfAPass) {
  const auto device = make_device("cpu:0", {.threads = 3, .tallies_kernels = true});
  const auto drawn = [&](const Shape& shape, DType dtype, const char* name) {
    const Tensor x = empty(shape, dtype, device);
    fill_normal(x, 0, 1, random_key(1, name));
    return x;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const auto& [inputs, outputs] : {std::pair<int64_t, int64_t>{256, 40}, {64, 1100}, {1100, 64}}) {
      const Tensor x = drawn({2, 16, 8, inputs}, dtype, "x"), other = drawn({2, 16, 8, outputs}, dtype, "other"),
                   odd = drawn({outputs, 1, 1, inputs}, dtype, "odd");
      const Shape pixel{outputs, 1, 1, inputs};
      const ProductOfWeight products[] = {
          {"linear", {outputs, inputs}, [&](const Var& w) { return linear(x, w, {}); }},
          {"conv2d", pixel,
           [&](const Var& w) {
             return conv2d(x, w, Window{1, 1, 1, 1});
           }},
          {"conv2d with strides", pixel,
           [&](const Var& w) {
             return conv2d(x, w, Window{1, 1, 2, 2});
           }},
          {"conv_transpose2d", pixel,
           [&](const Var& w) {
             return conv_transpose2d(other, w, Window{1, 1, 1, 1});
           }},
          {"factorized_reduction", pixel, [&](const Var& w) { return factorized_reduction(x, w, odd); }},
      };
      for (const auto& [name, shape, product] : products) {
        SCOPED_TRACE(::testing::Message() << name << " " << shape << ", " << dtype);
        const Tensor weight = drawn(shape, dtype, "weight"), before = drawn(shape, compute_dtype(dtype), "before");
        const Tensor expected = summed_gradient(product, weight, before, false);
        device->clear_kernels();
        EXPECT_EQ(bits_of(summed_gradient(product, weight, before, true)), bits_of(expected));
        for (const auto& [kind, tally] : device->kernels()) EXPECT_FALSE(kind.starts_with("add_into")) << kind;
      }
    }
}

/// Their terms would be added to the accumulator one after the other: other bits than those of a pass.
TEST(Backward, AddsProductsOverLeadingAxesByAPass) {
  const Tensor x = empty({3, 20, 40}), weight = empty({40, 30}), before = empty({40, 30});
  for (const Tensor& of : {x, weight, before}) fill_normal(of, 0, 1, random_key(1, "numbers"));
  const auto product = [&](const Var& w) { return matmul(x, w); };
  EXPECT_EQ(bits_of(summed_gradient(product, weight, before, true)), bits_of(summed_gradient(product, weight, before, false)));
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

TEST(Backward, KeepsForTheWeightsOfASecondLayerItsInputAndGradientAlone) {
  const auto device = make_device("cpu:0");
  const auto ones = [&](const Shape& shape) { return full(shape, 1, DType::f32, device); };
  const Var x = Var::input(ones({16, 32})), w = Var::parameter(ones({64, 32})), gain = Var::parameter(ones({64})),
            v = Var::parameter(ones({8, 64}));
  const int64_t leaves = device->live_bytes();
  Var y = linear(exp(mul(gelu(linear(x, w)), gain)), v);
  Backward backward(y.node(), ones({16, 8}));
  y = Var();
  backward.run_inputs();
  EXPECT_TRUE(backward.take(x).defined());
  const int64_t products = 4 * (16 * 64 + 16 * 64 + 16 * 8);  // dy of the first; x and dy of the second; the first's x is a leaf
  EXPECT_EQ(device->live_bytes() - leaves, products + 4 * 64) << "and the gradient of the gain, which is made";
  backward.run_weights();
  for (const Var& parameter : {w, gain, v}) EXPECT_TRUE(backward.take(parameter).defined());
  EXPECT_EQ(device->live_bytes(), leaves);
}

TEST(Backward, PassesThroughTheFirstLayersInTheInputPassToo) {
  const Var pixels(full({2, 3}, 1, DType::f64));
  const Var w = Var::parameter(full({4, 3}, 2, DType::f64)), v = Var::parameter(full({5, 4}, 3, DType::f64));
  const auto device = default_device();
  const auto flops = [&](auto&& work) {
    const Cost before = device->counted();
    work();
    return (device->counted() - before).flops;
  };
  const auto make = [&] { return linear(exp(linear(pixels, w)), v); };
  Backward whole(make(), full({2, 5}, 1, DType::f64)), split(make(), full({2, 5}, 1, DType::f64));
  const double all = flops([&] { whole.run(); });
  const double inputs = flops([&] { split.run_inputs(); });
  const double weights = flops([&] { split.run_weights(); });
  EXPECT_EQ(inputs + weights, all);
  EXPECT_EQ(weights, 2 * 2 * (3 * 4 + 4 * 5)) << "the products of two weights";
  for (const Var& parameter : {w, v}) EXPECT_EQ(split.take(parameter).to_vector(), whole.take(parameter).to_vector());
}

TEST(Backward, SumsTheUsesOfAParameterInOneOrderInOnePassOrTwo) {
  const auto drawn = [](const Shape& shape, uint64_t seed) {
    Tensor x = empty(shape, DType::f32);
    fill_normal(x, 0, 1, random_key(seed, "x"));
    return x;
  };
  const Var x = Var::input(drawn({5, 4}, 1)), w = Var::parameter(drawn({4, 4}, 2)), row = Var::parameter(drawn({4}, 3));
  const auto make = [&] {  // w in products as it is and made of itself; row as gain, bias and factor of w
    const Var made = mul(w, exp(row));
    return add(mul(linear(linear(x, w, row), made), row), linear(mul(x, row), w));
  };
  const Tensor dy = drawn({5, 4}, 4);
  Backward whole(make(), dy), split(make(), dy);
  whole.run();
  split.run_inputs();
  for (const Var& parameter : {w, row}) EXPECT_FALSE(split.take(parameter).defined());
  EXPECT_EQ(split.take(x).to_vector(), whole.take(x).to_vector());
  split.run_weights();
  for (const Var& parameter : {w, row}) EXPECT_EQ(split.take(parameter).to_vector(), whole.take(parameter).to_vector());
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
