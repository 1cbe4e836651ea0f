#pragma once
#include "layers/activation.h"
#include "layers/graph.h"
#include "layers/loss.h"

namespace sluice::layers {

/// How likely each expert is for each token: softmax(x W^T) over the experts, in the dtype of arithmetic (f32 for bf16).
/// Shape   x [B, T, width] -> [B, T, experts]; weight [experts, width].
/// Starts  weight normal with 1 / sqrt(width).
class Router : public Module {
 public:
  Router(int64_t width, int64_t experts);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t width_, experts_;
};

/// Feed-forward layers of which each token runs through the `chosen` likeliest alone, for more parameters at the same work a token:
///   y = sum of p[e] activation(x in[e]) out[e] over the token's experts e.
/// p are the router's probabilities; those of several chosen experts are divided by their sum. An expert takes at most
/// capacity(T) = ceil(capacity_factor chosen T / experts) tokens of a sample: first choices before second ones, earlier tokens before later
/// ones. What it does not take adds nothing to y. Samples do not compete, so y is that of the sample whatever the micro-batches are. With
/// a factor of experts / chosen, all tokens find room. Generation (Call::cache) needs that: tokens that come one by one compete with none.
/// Inputs  {x, probabilities}, the latter as Router makes them.
/// Shape   x [B, T, width], probabilities [B, T, experts] -> y like x; in [experts, width, inner], out [experts, inner, width].
/// Starts  as FeedForward's weights.
/// Cost    products over capacity(T) rows a sample and expert, also where fewer tokens come.
/// Errors  UsageError naming shapes that do not fit, for samples of 2^24 choices or more, which are counted in f32, and in generation for a
///         factor that drops tokens.
/// Source  Lepikhin et al. 2020, arXiv:2006.16668 (top 2, capacity); Fedus, Zoph, Shazeer 2021, arXiv:2101.03961 (top 1).
class Experts : public Module {
 public:
  struct Options {
    int64_t width, inner, experts;
    int64_t chosen = 2;
    double capacity_factor = 1.25;
    Activation::Kind activation = Activation::Kind::gelu_tanh;
    double standard_deviation = 0;  ///< of in; 0 = 1 / sqrt(width)
    double output_deviation = 0;    ///< of out; 0 = 1 / sqrt(inner)
  };
  explicit Experts(const Options& options);
  InputCount input_count() const override { return {2, 2}; }
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;
  /// The tokens of a sample of `tokens` that an expert takes at most.
  int64_t capacity(int64_t tokens) const;

 private:
  bool drops_nothing() const;

  Options options_;
};

/// Of each sample: experts * sum_e f[e] P[e], f[e] the part of its choices that fell on expert e and P[e] the mean of e's probability over its
/// tokens. 1 where experts are used evenly; the gradient, through P alone, draws tokens away from those that are used most.
/// Inputs  {probabilities}, or with weights as Loss has them.
/// Source  Fedus, Zoph, Shazeer 2021, arXiv:2101.03961 (4 to 6), for a sample instead of the batch.
class BalanceLoss : public Loss {
 public:
  explicit BalanceLoss(int64_t chosen = 2);

 protected:
  Var losses(const Call& call) const override;

 private:
  int64_t chosen_;
};

/// The nodes "NAME.router" and "NAME.experts" on a value of a graph. The balance loss is one part of a sum:
///   const auto mixture = add_mixture_of_experts(graph, "mixture", options, x);
///   graph.loss(graph.add("loss", LossSum().with("label", CrossEntropy(), 1, {0, 1}).with("balance", BalanceLoss(options.chosen), 0.01, {2}),
///                        {logits, labels, mixture.probabilities}));
struct MixtureOfExperts {
  Value output, probabilities;
};
MixtureOfExperts add_mixture_of_experts(Graph& graph, const std::string& name, const Experts::Options& options, Value x);

}  // namespace sluice::layers
