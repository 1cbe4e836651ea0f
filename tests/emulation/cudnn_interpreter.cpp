#include "tests/emulation/cudnn_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::emulation {

namespace {

using Indices = CudnnIndices;

class Interpreter {
 public:
  Interpreter(const CudnnStep& step, CudnnNumbers& known) : step_(step), known_(known), result_(step.result.span()) {}

  void run() {
    if (step_.kind == CudnnStep::pointwise) each_element(y().extents, [&](const Indices& at) { put(at, pointwise(at)); });
    if (step_.kind == CudnnStep::product) each_element(y().extents, [&](const Indices& at) { put(at, product(at)); });
    if (step_.kind == CudnnStep::reduction) reduce();
    if (step_.kind == CudnnStep::reshape)  // the same places in memory under other names
      std::transform(known_.at(step_.operands[0].uid).begin(), known_.at(step_.operands[0].uid).end(), result_.begin(),
                     [&](double value) { return rounded(y().dtype, value); });
    known_[y().uid] = std::move(result_);
  }

 private:
  const CudnnTensor& y() const { return step_.result; }

  /// An operand's element; it has one where its extent is 1.
  double operand(size_t index, Indices at) const {
    const CudnnTensor& x = step_.operands[index];
    for (size_t axis = 0; axis < 4; ++axis) at[axis] = std::min(at[axis], x.extents[axis] - 1);
    return known_.at(x.uid)[x.offset(at)];
  }

  void put(const Indices& at, double value) { result_[y().offset(at)] = rounded(y().dtype, value); }

  double pointwise(const Indices& at) const {
    const auto x = [&](size_t index) { return operand(index, at); };
    switch (step_.mode) {
      case CUDNN_POINTWISE_ADD:
        return x(0) + x(1);
      case CUDNN_POINTWISE_SUB:
        return x(0) - x(1);
      case CUDNN_POINTWISE_MUL:
        return x(0) * x(1);
      case CUDNN_POINTWISE_DIV:
        return x(0) / x(1);
      case CUDNN_POINTWISE_EXP:
        return std::exp(x(0));
      case CUDNN_POINTWISE_LOG:
        return std::log(x(0));
      case CUDNN_POINTWISE_CMP_GE:
        return x(0) >= x(1);
      case CUDNN_POINTWISE_GEN_INDEX:
        return static_cast<double>(at[*step_.axis]);
      case CUDNN_POINTWISE_BINARY_SELECT:
        return x(2) != 0 ? x(0) : x(1);
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  double product(const Indices& at) const {
    const CudnnTensor &a = step_.operands[0], &b = step_.operands[1];
    const auto &left = known_.at(a.uid), &right = known_.at(b.uid);
    const int64_t served = at[1] / (a.extents[1] / b.extents[1]);
    const double* const row = left.data() + a.offset({at[0], at[1], at[2], 0});
    const double* const column = right.data() + b.offset({at[0], served, 0, at[3]});
    double sum = 0;
    for (int64_t k = 0; k < a.extents[3]; ++k) sum += rounded(CUDNN_DATA_BFLOAT16, row[k * a.strides[3]]) * column[k * b.strides[2]];
    return sum;
  }

  void reduce() {
    const bool is_sum = step_.reduced == CUDNN_REDUCE_TENSOR_ADD;
    std::fill(result_.begin(), result_.end(), is_sum ? 0 : -std::numeric_limits<double>::infinity());
    each_element(step_.operands[0].extents, [&](Indices at) {
      const double value = operand(0, at);
      for (size_t axis = 0; axis < 4; ++axis) at[axis] = std::min(at[axis], y().extents[axis] - 1);
      double& total = result_[y().offset(at)];
      total = is_sum ? total + value : std::max(total, value);
    });
    for (double& total : result_) total = rounded(y().dtype, total);
  }

  const CudnnStep& step_;
  CudnnNumbers& known_;
  std::vector<double> result_;
};

}  // namespace

void interpret(const CudnnComposition& composition, CudnnNumbers& known) {
  for (const CudnnStep& step : composition.steps) Interpreter(step, known).run();
}

}  // namespace sluice::emulation
