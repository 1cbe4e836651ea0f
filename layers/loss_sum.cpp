#include "layers/loss_sum.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/elementwise.h"

namespace sluice::layers {

namespace {

template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<int>& numbers) {
  std::vector<T> result;
  for (int number : numbers) result.push_back(all.at(static_cast<size_t>(number)));
  return result;
}

/// What the scale of the sum, 1 / samples, is multiplied by to be that of a part, 1 / its weight.
double scale_ratio(const std::vector<double>& weights, size_t part) {
  if (weights.size() <= part + 1) return 1;
  return weights[part + 1] == 0 ? 0 : weights[0] / weights[part + 1];
}

}  // namespace

void LossSum::add_part(Part part) {
  require(std::isfinite(part.factor), "LossSum: needs a finite factor for each loss, got ", part.factor);
  require(!part.reads.empty() && std::ranges::min(part.reads) >= 0, "LossSum: needs numbers >= 0 of the inputs that each loss reads");
  inputs_ = std::max(inputs_, std::ranges::max(part.reads) + 1);
  parts_.push_back(std::move(part));
}

Var LossSum::term(const Call& call, size_t number) const {
  const auto& [child, factor, reads] = parts_[number];
  bool is_scaled = !call.training;
  Call of_part = call;
  of_part.loss_scale = {call.loss_scale * factor * scale_ratio(call.loss_weights, number), is_scaled};
  of_part.loss_weights.clear();
  const Var loss = run(of_part, child, picked<Var>(call.inputs, reads));
  require(is_scaled, "LossSum: needs losses that multiply their weighted sum by Call::loss_scale, loss ", number, " (",
          type_of(this->child(child)), ") does not; multiply by it, or derive from Loss");
  return loss;
}

Var LossSum::forward(const Call& call) const {
  require(!parts_.empty(), "LossSum: needs at least one loss");
  Var total = term(call, 0);
  for (size_t number = 1; number < parts_.size(); ++number) total = sluice::add(total, term(call, number));
  return total;
}

double LossSum::loss_weight(const std::vector<Tensor>&, int64_t samples) const { return static_cast<double>(samples); }

std::vector<double> LossSum::loss_weights(const std::vector<Tensor>& inputs, int64_t samples) const {
  std::vector<double> all{loss_weight(inputs, samples)};
  for (const auto& part : parts_) all.push_back(child(part.child).loss_weight(picked(inputs, part.reads), samples));
  return all;
}

}  // namespace sluice::layers
