// A node asks for the gradients of its inputs by their index, which once was shifted within 32 bits.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/concat.h"

namespace sluice {
namespace {

constexpr int kInputs = 100;

bool is_leaf(int input) { return input % 3 == 1; }

/// One row an input; the others are constants.
std::vector<Var> rows() {
  std::vector<Var> all;
  for (int i = 0; i < kInputs; ++i) {
    const Tensor row = full({1, 2}, i, DType::f64);
    all.push_back(!is_leaf(i) ? Var(row) : i % 2 == 0 ? Var::input(row) : Var::parameter(row));
  }
  return all;
}

Tensor numbered_gradient() {
  std::vector<double> elements;
  for (int i = 0; i < 2 * kInputs; ++i) elements.push_back(i);
  return tensor_of(elements, {kInputs, 2}, DType::f64);
}

void expect_own_rows(Backward& backward, const std::vector<Var>& parts) {
  for (int i = 0; i < kInputs; ++i)
    if (is_leaf(i)) {
      EXPECT_EQ(backward.take(parts[i]).to_vector(), (std::vector<double>{2.0 * i, 2.0 * i + 1})) << "input " << i;
    }
}

TEST(HundredInputs, OfOneNodeGetTheirOwnGradientsWhereTheyWantOne) {
  const auto parts = rows();
  Backward backward(concat(parts, 0), numbered_gradient());
  backward.run();
  expect_own_rows(backward, parts);
}

TEST(HundredInputs, GetThemFromASplitBackwardToo) {
  const auto parts = rows();
  Backward backward(concat(parts, 0), numbered_gradient());
  backward.run_inputs();
  backward.run_weights();
  expect_own_rows(backward, parts);
}

Gradients copies_of(const Node& node, const Tensor& dy, Needs needs) {
  Gradients gradients(node.inputs.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (needs[i]) gradients[i] = dy.clone();
  return gradients;
}

TEST(HundredInputs, OfAnOpThatDefersKeepWhatTheirOwnGradientsRead) {
  std::vector<Var> inputs;
  std::vector<Tensor> saved;
  std::vector<Needs> readers;
  for (int i = 0; i < kInputs; ++i) {
    const Tensor x = full({2}, i, DType::f64);
    inputs.push_back(i == 70 ? Var::parameter(x) : Var::input(x));
    saved.push_back(x);
    readers.push_back(Needs::of(static_cast<size_t>(i)));
  }
  const Var y = record("sum", full({2}, 0, DType::f64), inputs, saved, {}, copies_of, readers);
  Backward backward(y, full({2}, 3, DType::f64));
  backward.run_inputs();
  for (int i = 0; i < kInputs; ++i) EXPECT_EQ(y.node()->saved[i].defined(), i == 70) << "saved tensor " << i;
  backward.run_weights();
  for (const Var& input : inputs) EXPECT_EQ(backward.take(input).to_vector(), std::vector<double>(2, 3));
}

}  // namespace
}  // namespace sluice
