#include "core/cuda/cudnn_composition.h"

#include <utility>

namespace sluice::cudnn {

Layout Layout::transposed() const {
  Layout other = *this;
  std::swap(other.extents[2], other.extents[3]);
  std::swap(other.strides[2], other.strides[3]);
  return other;
}

Composition::Value Composition::value(cudnnDataType_t dtype, const Layout& layout, Place place) {
  Descriptor made(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, next_uid_);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, dtype);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(layout.extents));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(layout.strides));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (place == Place::nowhere) made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (place == Place::host) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  made.finalize();
  if (place == Place::memory) graph_->uids.push_back(next_uid_);
  if (place == Place::host) scalar_uids_.push_back(next_uid_);
  ++next_uid_;
  graph_->parts.push_back(std::move(made));
  return {graph_->parts.size() - 1, layout};
}

Composition::Value Composition::tensor(cudnnDataType_t dtype, const Layout& layout) { return value(dtype, layout, Place::memory); }

Composition::Value Composition::between(cudnnDataType_t dtype, const Layout& layout) { return value(dtype, layout, Place::nowhere); }

Composition::Value Composition::scalar(float number) {
  graph_->scalars.push_back(number);
  return value(CUDNN_DATA_FLOAT, {{1, 1, 1, 1}, {1, 1, 1, 1}}, Place::host);
}

void Composition::append(Descriptor operation) {
  operation.finalize();
  operations_.push_back(operation.handle());
  graph_->parts.push_back(std::move(operation));
}

Composition::Value Composition::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> operands, const Value& to,
                                          cudnnDataType_t precision, std::optional<int64_t> axis) {
  constexpr cudnnBackendAttributeName_t kOperands[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Descriptor function(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (axis) function.set(CUDNN_ATTR_POINTWISE_AXIS, *axis);
  function.finalize();
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  for (size_t i = 0; i < operands.size(); ++i) operation.set(kOperands[i], part(operands.begin()[i]));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, part(to));
  append(std::move(operation));
  graph_->parts.push_back(std::move(function));
  return to;
}

Composition::Value Composition::product(const Value& a, const Value& b, const Value& to) {
  Descriptor function(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  function.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  function.finalize();
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, function);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, part(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, part(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, part(to));
  append(std::move(operation));
  graph_->parts.push_back(std::move(function));
  return to;
}

Composition::Value Composition::reduction(cudnnReduceTensorOp_t what, const Value& x, const Value& to) {
  Descriptor function(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  function.set(CUDNN_ATTR_REDUCTION_OPERATOR, what);
  function.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  function.finalize();
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, function);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, part(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, part(to));
  append(std::move(operation));
  graph_->parts.push_back(std::move(function));
  return to;
}

Composition::Value Composition::seen_as(const Value& x, const Value& to) {
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, part(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, part(to));
  append(std::move(operation));
  return to;
}

std::shared_ptr<const Graph> Composition::graph() && {
  Descriptor whole(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  whole.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  whole.finalize();
  graph_->parts.push_back(std::move(whole));
  graph_->uids.insert(graph_->uids.end(), scalar_uids_.begin(), scalar_uids_.end());
  return std::move(graph_);
}

}  // namespace sluice::cudnn
