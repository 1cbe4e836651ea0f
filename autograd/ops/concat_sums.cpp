#include "autograd/ops/concat_sums.h"

#include "core/ops/concat_sums.h"

namespace sluice {

namespace {

struct PartOf {
  int64_t width;
  bool is_sum;
};

Gradients taken_apart(const Node& node, const Tensor& dy, Needs needs) {
  const auto& parts = node.attribute<std::vector<PartOf>>();
  std::vector<int64_t> widths;
  std::vector<bool> needed;
  size_t input = 0;
  for (const auto& [width, is_sum] : parts) {
    widths.push_back(width);
    needed.push_back(needs[input] || (is_sum && needs[input + 1]));
    input += is_sum ? 2 : 1;
  }
  const std::vector<Tensor> of_parts = concat_sums_backward(dy, node.saved[0], widths, needed);
  Gradients gradients;
  for (size_t i = 0; i < parts.size(); ++i) gradients.insert(gradients.end(), parts[i].is_sum ? 2 : 1, of_parts[i]);
  return gradients;
}

}  // namespace

Var concat_sums(const std::vector<SummedVar>& parts, bool relu) {
  std::vector<Addends> values;
  std::vector<Var> inputs;
  std::vector<PartOf> of_parts;
  for (const auto& [a, b] : parts) {
    const bool is_sum = b.value().defined();
    values.push_back({a.value(), b.value()});
    inputs.push_back(a);
    if (is_sum) inputs.push_back(b);
    of_parts.push_back({a.value().defined() ? a.dim(-1) : 0, is_sum});
  }
  Tensor y = concat_sums(values, relu);
  const Tensor kept = relu ? y : Tensor();
  return record("concat_sums", std::move(y), inputs, {kept}, std::move(of_parts), taken_apart);
}

}  // namespace sluice
