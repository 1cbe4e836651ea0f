#include "layers/losses.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/softmax.h"
#include "core/ops/copy.h"

namespace sluice::layers {

namespace {

struct Compared {
  Var x, target;
};

/// Whole numbers, which are constants, in the dtype of another value; floats as they are.
Var as_floats(const Var& x, const Var& other) { return is_floating(x.value().dtype()) ? x : Var(cast(x.value(), other.value().dtype())); }

Compared compared(const Loss& loss, const Call& call) {
  const Var &x = call.inputs[0], &target = call.inputs[1];
  require(x.shape() == target.shape(), type_of(loss), ": needs a prediction and a target of one shape, got ", x.shape(), " and ",
          target.shape(), "; reshape one of them");
  return {x, as_floats(target, x)};
}

Var difference(const Loss& loss, const Call& call) {
  const auto [x, target] = compared(loss, call);
  return sub(x, target);
}

Var distance(const Var& a, const Var& b) {
  constexpr double kLeast = 1e-6;
  return sqrt(sum(square(add(sub(a, b), kLeast)), {-1}));
}

}  // namespace

Var MeanSquaredError::losses(const Call& call) const { return square(difference(*this, call)); }

Var MeanAbsoluteError::losses(const Call& call) const { return abs(difference(*this, call)); }

Huber::Huber(double delta) : delta_(delta) { require(delta > 0 && std::isfinite(delta), "Huber: needs a finite delta > 0, got ", delta); }

/// c (d - c / 2) with c = min(d, delta).
Var Huber::losses(const Call& call) const {
  const Var d = abs(difference(*this, call)), cut = clamp_max(d, delta_);
  return mul(cut, sub(d, scale(cut, 0.5)));
}

BinaryCrossEntropy::BinaryCrossEntropy(double positive_weight) : positive_weight_(positive_weight) {
  require(positive_weight > 0 && std::isfinite(positive_weight), "BinaryCrossEntropy: needs a finite positive weight > 0, got ",
          positive_weight);
}

Var BinaryCrossEntropy::losses(const Call& call) const {
  const auto [x, target] = compared(*this, call);
  return add(mul(scale(target, positive_weight_), softplus(neg(x))), mul(sub(1, target), softplus(x)));
}

Var KLDivergence::losses(const Call& call) const {
  const auto [x, target] = compared(*this, call);
  // The least normal number stands for 0, whose logarithm a product with 0 would make NaN.
  const Var log_target = log(clamp_min(target, std::numeric_limits<float>::min()));
  return sum(mul(target, sub(log_target, log_softmax(x))), {-1});
}

TripletMargin::TripletMargin(double margin) : Loss(3), margin_(margin) {
  require(margin >= 0 && std::isfinite(margin), "TripletMargin: needs a finite margin >= 0, got ", margin);
}

Var TripletMargin::losses(const Call& call) const {
  const auto [anchor, positive] = compared(*this, call);
  const Var& negative = call.inputs[2];
  require(negative.shape() == anchor.shape(), type_of(*this), ": needs three inputs of one shape, got ", anchor.shape(), " and ",
          negative.shape());
  return relu(add(sub(distance(anchor, positive), distance(anchor, negative)), margin_));
}

}  // namespace sluice::layers
