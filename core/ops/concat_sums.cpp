#include "core/ops/concat_sums.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

void check(const std::vector<Addends>& parts) {
  require(!parts.empty(), "concat_sums: needs at least one part, got none");
  const Tensor& first = parts[0].a;
  require(first.defined() && first.rank() >= 1 && is_floating(first.dtype()), "concat_sums: needs parts [..., n] of a floating dtype, got ",
          first);
  for (const auto& [a, b] : parts) {
    require(a.defined() && a.rank() == first.rank() && a.shape().with(-1, first.dim(-1)) == first.shape() && a.dtype() == first.dtype(),
            "concat_sums: needs parts of one dtype that differ in the last axis only, got ", first, " and ", a);
    require(!b.defined() || (b.shape() == a.shape() && b.dtype() == a.dtype()), "concat_sums: needs addends of one shape and dtype, got ",
            a, " and ", b);
  }
}

Tensor row_major(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

}  // namespace

Tensor concat_sums(const std::vector<Addends>& parts, bool relu) {
  check(parts);
  std::vector<Addends> from;
  from.reserve(parts.size());  // operands refer to its tensors
  std::vector<Operand> operands;
  int64_t width = 0;
  Cost cost;
  for (const auto& [a, b] : parts) {
    from.push_back({row_major(a), row_major(b)});
    operands.emplace_back(from.back().a);
    if (b.defined()) operands.emplace_back(from.back().b);
    const auto elements = static_cast<double>(a.elements()), bytes = static_cast<double>(a.bytes());
    cost += {elements * (b.defined() + relu), b.defined() ? 2 * bytes : bytes, bytes};
    width += a.dim(-1);
  }
  const Tensor& first = parts[0].a;
  const Tensor y = empty(first.shape().with(-1, width), first.dtype(), first.device_ptr());
  run_kernel("concat_sums", operands, cost, [&](auto& context) { kernels::concat_sums(context, from, relu, y); });
  return y;
}

std::vector<Tensor> concat_sums_backward(const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                                         const std::vector<bool>& needs) {
  int64_t width = 0;
  for (int64_t of_part : widths) width += of_part;
  require(dy.rank() >= 1 && dy.dim(-1) == width && is_floating(dy.dtype()) && needs.size() == widths.size(),
          "concat_sums_backward: needs a gradient [..., ", width, "] of a floating dtype, got ", dy);
  require(!y.defined() || (y.shape() == dy.shape() && y.dtype() == dy.dtype()), "concat_sums_backward: needs a gradient like the result ",
          y, ", got ", dy);
  const Tensor gradient = dy.contiguous(), result = row_major(y);
  std::vector<Tensor> gradients(widths.size());
  double bytes = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (!needs[i]) continue;
    gradients[i] = empty(dy.shape().with(-1, widths[i]), dy.dtype(), dy.device_ptr());
    bytes += static_cast<double>(gradients[i].bytes());
  }
  std::vector<Operand> operands{gradient};
  if (y.defined()) operands.emplace_back(result);
  const Cost cost{y.defined() ? bytes / static_cast<double>(size_of(dy.dtype())) : 0, y.defined() ? 2 * bytes : bytes, bytes};
  run_kernel("concat_sums_backward", operands, cost,
             [&](auto& context) { kernels::concat_sums_backward(context, gradient, result, widths, gradients); });
  return gradients;
}

}  // namespace sluice
