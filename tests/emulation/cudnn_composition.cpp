#include "tests/emulation/cudnn_composition.h"

#include <algorithm>
#include <set>

#include "tests/emulation/cudnn_object.h"

namespace sluice::emulation {

namespace {

bool is_number(const CudnnTensor& tensor) { return tensor.dtype == CUDNN_DATA_FLOAT || tensor.dtype == CUDNN_DATA_BFLOAT16; }

bool is_spread_over(const CudnnTensor& small, const CudnnTensor& large) {
  for (size_t axis = 0; axis < 4; ++axis)
    if (small.extents[axis] != 1 && small.extents[axis] != large.extents[axis]) return false;
  return true;
}

size_t operand_count(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_GEN_INDEX:
      return 1;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return 3;
    default:
      return 2;
  }
}

void check_pointwise(const CudnnStep& step) {
  const auto& [kind, mode, reduced, precision, axis, x, y] = step;
  expect(x.size() == operand_count(mode), "the operands of a pointwise operation");
  for (const CudnnTensor& operand : x) expect(is_spread_over(operand, y), "operands that spread over the result");
  expect(axis.has_value() == (mode == CUDNN_POINTWISE_GEN_INDEX), "an axis for indices, and only for them");
  if (mode == CUDNN_POINTWISE_GEN_INDEX) return expect(y.dtype == CUDNN_DATA_INT32 && *axis >= 0 && *axis < 4, "indices of an axis");
  if (mode == CUDNN_POINTWISE_CMP_GE)
    return expect(x[0].dtype == CUDNN_DATA_INT32 && x[1].dtype == CUDNN_DATA_INT32 && y.dtype == CUDNN_DATA_BOOLEAN &&
                      precision == CUDNN_DATA_BOOLEAN,
                  "a comparison of indices");
  expect(x.size() < 3 || x[2].dtype == CUDNN_DATA_BOOLEAN, "a selector that is true or false");
  expect(is_number(x[0]) && is_number(x[x.size() > 1]) && is_number(y) && precision == CUDNN_DATA_FLOAT, "arithmetic in f32");
}

void check_product(const CudnnStep& step) {
  const CudnnTensor &a = step.operands[0], &b = step.operands[1], &c = step.result;
  expect(a.dtype == CUDNN_DATA_BFLOAT16 || (a.dtype == CUDNN_DATA_FLOAT && a.is_virtual), "a factor of bf16, or one that is rounded to it");
  expect(b.dtype == CUDNN_DATA_BFLOAT16 && is_number(c), "a factor of bf16");
  expect(a.extents[3] == b.extents[2] && a.extents[2] == c.extents[2] && b.extents[3] == c.extents[3], "matrices that fit");
  expect(a.extents[0] == b.extents[0] && a.extents[0] == c.extents[0] && a.extents[1] == c.extents[1], "as many matrices");
  expect(a.extents[1] % b.extents[1] == 0, "heads that a head of the other factor serves");
}

}  // namespace

void CudnnStep::check() const {
  switch (kind) {
    case pointwise:
      return check_pointwise(*this);
    case product:
      expect(precision == CUDNN_DATA_FLOAT, "sums in f32");
      return check_product(*this);
    case reduction:
      expect(precision == CUDNN_DATA_FLOAT, "sums in f32");
      return expect(is_number(operands[0]) && is_number(result) && is_spread_over(result, operands[0]), "a reduction of whole axes");
    case reshape:
      return expect(operands[0].elements() == result.elements() && operands[0].span() == result.span(), "as many elements");
  }
}

void CudnnComposition::check() const {
  std::set<int64_t> computed;
  for (const CudnnStep& step : steps) {
    step.check();
    for (const CudnnTensor& operand : step.operands)
      expect(!operand.is_virtual || computed.contains(operand.uid), "operands that are computed already");
    expect(!step.result.is_scalar && computed.insert(step.result.uid).second, "a result of its own");
  }
}

std::vector<CudnnTensor> CudnnComposition::outside() const {
  std::vector<CudnnTensor> all;
  const auto add = [&](const CudnnTensor& tensor) {
    if (!tensor.is_virtual && std::none_of(all.begin(), all.end(), [&](const CudnnTensor& other) { return other.uid == tensor.uid; }))
      all.push_back(tensor);
  };
  for (const CudnnStep& step : steps) {
    for (const CudnnTensor& operand : step.operands) add(operand);
    add(step.result);
  }
  return all;
}

bool CudnnComposition::is_result(const CudnnTensor& tensor) const {
  return std::any_of(steps.begin(), steps.end(), [&](const CudnnStep& step) { return step.result.uid == tensor.uid; });
}

}  // namespace sluice::emulation
