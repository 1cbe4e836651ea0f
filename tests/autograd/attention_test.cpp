// What lengths of samples change in attention: nothing but the padding.
#include "autograd/ops/attention.h"

#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "core/random.h"

namespace sluice {
namespace {

Tensor normal(const Shape& shape, const char* name) {
  const Tensor x = empty(shape);
  fill_normal(x, 0, 1, random_key(1, name));
  return x;
}

Tensor lengths(const std::vector<double>& of_samples) {
  return tensor_of(of_samples, {static_cast<int64_t>(of_samples.size())}, DType::i32);
}

/// y and the gradient of self-attention with two heads.
std::vector<Tensor> both_passes(const Tensor& qkv, const AttentionMask& mask) {
  const Var packed = Var::input(qkv);
  const Var y = attention_packed(packed, 2, mask);
  return {y.value(), gradients(y, normal(y.shape(), "dy"), {packed})[0]};
}

TEST(AttentionLengths, OfWholeSamplesGiveTheBitsOfNone) {
  const Tensor qkv = normal({3, 70, 48}, "qkv"), whole = lengths({70, 70, 70});
  for (const bool causal : {false, true}) {
    const auto without = both_passes(qkv, {causal}), with = both_passes(qkv, {causal, whole, whole});
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(with[i].to_vector(), without[i].to_vector()) << causal;
  }
}

TEST(AttentionLengths, GiveAPaddedSampleTheBitsOfTheSampleAlone) {
  const std::vector<double> of_samples{70, 33, 1};
  const Tensor qkv = normal({3, 70, 48}, "qkv"), all = lengths(of_samples);
  const Tensor dy = normal({3, 70, 16}, "dy");
  for (const bool causal : {false, true}) {
    const auto together = both_passes(qkv, {causal, all, all});
    for (int64_t sample = 0; sample < 3; ++sample) {
      const auto length = static_cast<int64_t>(of_samples[static_cast<size_t>(sample)]);
      const auto part = [&](const Tensor& x) { return x.slice(0, sample, sample + 1).slice(1, 0, length).contiguous(); };
      const Var alone = Var::input(part(qkv)), y = attention_packed(alone, 2, {causal});
      EXPECT_EQ(part(together[0]).to_vector(), y.value().to_vector());
      EXPECT_EQ(part(together[1]).to_vector(), gradients(y, part(dy), {alone})[0].to_vector());
      for (const Tensor& padded : together) {
        const Tensor padding = padded.slice(0, sample, sample + 1).slice(1, length, 70);
        EXPECT_EQ(padding.to_vector(), std::vector<double>(static_cast<size_t>(padding.elements()))) << "zeros";
      }
    }
  }
}

TEST(AttentionLengths, AreKeptForTheGradientAlone) {
  const Tensor qkv = normal({2, 4, 12}, "qkv"), some = lengths({4, 2});
  const Var y = attention_packed(Var::input(qkv), 2, {.query_lengths = some, .key_lengths = some});
  EXPECT_EQ(y.node()->saved.size(), 5u);
  EXPECT_EQ(attention_packed(qkv, 2, {.query_lengths = some}).node(), nullptr);
}

}  // namespace
}  // namespace sluice
