#include "layers/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/cross_entropy.h"

namespace sluice::layers {
namespace {

/// One channel in, two out, both with weight 1 and no change by the norm but its rounding.
Tensor reduced(const Tensor& x) {
  const Var one(full({1, 1, 1, 1}, 1)), gamma(full({2}, 1)), beta(zeros({2}));
  Call call;
  call.inputs = {Var(x)};
  call.parameters = {one, one, gamma, beta};
  call.statistics = {{zeros({2}), full({2}, 1)}};
  call.training = false;
  return FactorizedReduction(1, 2).forward(call).value();
}

std::vector<int> rounded(const Tensor& x) {
  std::vector<int> result;
  for (double value : x.to_vector()) result.push_back(static_cast<int>(std::lround(value)));
  return result;
}

TEST(FactorizedReduction, TakesEvenPlacesThenOddOnesWithZerosPastTheEdge) {
  const Tensor even = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 4, 4, 1});
  EXPECT_EQ(rounded(reduced(even)), (std::vector<int>{1, 6, 3, 8, 9, 14, 11, 16}));
  const Tensor odd = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  EXPECT_EQ(rounded(reduced(odd)), (std::vector<int>{1, 5, 3, 0, 7, 0, 9, 0}));
  EXPECT_EQ(rounded(reduced(tensor_of({7}, {1, 1, 1, 1}))), (std::vector<int>{7, 0}));
}

TEST(CrossEntropy, AddsTheAuxiliaryLossInTrainingOnly) {
  const Tensor logits = tensor_of({1, 2, 0, 1}, {2, 2}), other = tensor_of({3, 1, 2, 2}, {2, 2});
  const Tensor labels = tensor_of({0, 1}, {2}, DType::i32);
  const auto loss = [&](double weight, const std::vector<Var>& inputs, bool training) {
    Call call;
    call.inputs = inputs;
    call.training = training;
    call.loss_scale = 0.5;
    return CrossEntropy(0, weight).forward(call).value().item();
  };
  const double first = loss(0, {logits, labels}, true), second = loss(0, {other, labels}, true);
  EXPECT_NEAR(loss(0.4, {logits, labels, other}, true), first + 0.4 * second, 1e-6);
  EXPECT_EQ(loss(0.4, {logits, labels, other}, false), first);
}

}  // namespace
}  // namespace sluice::layers
