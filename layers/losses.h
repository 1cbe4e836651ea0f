#pragma once
#include "layers/loss.h"

namespace sluice::layers {

// Losses between a prediction x and a target of one shape [B, ...], each element x[i] against t[i]; weights as Loss has them. Targets are
// inputs of the graph, of any dtype, or values of nodes, which then get gradients too.

/// (x - t)^2.
class MeanSquaredError : public Loss {
 protected:
  Var losses(const Call& call) const override;
};

/// |x - t|, the L1 loss. The gradient is 0 where they are equal.
class MeanAbsoluteError : public Loss {
 protected:
  Var losses(const Call& call) const override;
};

/// With d = |x - t|: d^2 / 2 up to delta, delta (d - delta / 2) beyond.
/// Source  Huber 1964, doi:10.1214/aoms/1177703732.
class Huber : public Loss {
 public:
  explicit Huber(double delta = 1);

 protected:
  Var losses(const Call& call) const override;

 private:
  double delta_;
};

/// -p t log(s) - (1 - t) log(1 - s) of s = sigmoid(x), for logits x and t in [0, 1]; p is `positive_weight`. As
/// p t softplus(-x) + (1 - t) softplus(x), which neither overflows nor cancels.
class BinaryCrossEntropy : public Loss {
 public:
  explicit BinaryCrossEntropy(double positive_weight = 1);

 protected:
  Var losses(const Call& call) const override;

 private:
  double positive_weight_;
};

/// sum_c t[c] (log t[c] - log p[c]) over the last axis, p = softmax(x), 0 log 0 = 0: how far the prediction is from the distribution t.
/// Shape   x, t [B, ..., classes], t with sums of 1 over the last axis; losses [B, ...].
/// x may be logits or log-probabilities: log_softmax leaves the latter as they are, but for rounding.
/// Source  Kullback, Leibler 1951, doi:10.1214/aoms/1177729694.
class KLDivergence : public Loss {
 protected:
  Var losses(const Call& call) const override;
};

/// max(0, |anchor - positive| - |anchor - negative| + margin), with Euclidean distances over the last axis.
/// Shape   inputs {anchor, positive, negative} [B, ..., width]; losses [B, ...].
/// 1e-6 is added to each difference, so that equal vectors have a gradient. arXiv 1503.03832, with distances that are not squared.
class TripletMargin : public Loss {
 public:
  explicit TripletMargin(double margin = 1);

 protected:
  Var losses(const Call& call) const override;

 private:
  double margin_;
};

}  // namespace sluice::layers
