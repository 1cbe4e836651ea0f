#include "tests/emulation/cudnn_descriptions.h"

namespace sluice::emulation {

CudnnTensor tensor_of(const Object& from) {
  CudnnTensor tensor;
  tensor.uid = from.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64);
  tensor.alignment = from.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64);
  tensor.dtype = from.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
  tensor.extents = from.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64);
  tensor.strides = from.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64);
  expect(tensor.extents.size() == 4 && tensor.strides.size() == 4, "a tensor needs four axes");
  tensor.is_virtual = from.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  tensor.is_scalar = from.flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  expect(!tensor.is_scalar || (tensor.elements() == 1 && !tensor.is_virtual && tensor.dtype == CUDNN_DATA_FLOAT), "one number as a scalar");
  return tensor;
}

CudnnWindow window_of(const Object& from) {
  expect(from.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64) == 2, "two spatial axes");
  expect(from.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) == CUDNN_DATA_FLOAT, "sums in f32");
  expect(from.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE) == CUDNN_CROSS_CORRELATION,
         "a window that is not mirrored");
  const auto two = [&](cudnnBackendAttributeName_t name) {
    auto values = from.all<int64_t>(name, CUDNN_TYPE_INT64);
    expect(values.size() == 2, "one value an axis");
    return values;
  };
  expect(two(CUDNN_ATTR_CONVOLUTION_DILATIONS) == std::vector<int64_t>{1, 1}, "no dilation");
  return {two(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), two(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), two(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)};
}

CudnnConvolution convolution_of(const Object& operation) {
  const auto read = [&](CudnnConvolution::Pass pass, cudnnBackendAttributeName_t x, cudnnBackendAttributeName_t weight,
                        cudnnBackendAttributeName_t y, cudnnBackendAttributeName_t window, cudnnBackendAttributeName_t alpha,
                        cudnnBackendAttributeName_t beta) {
    expect(operation.one<float>(alpha, CUDNN_TYPE_FLOAT) == 1 && operation.one<float>(beta, CUDNN_TYPE_FLOAT) == 0, "a plain result");
    CudnnConvolution made{pass, tensor_of(operation.object(x, CUDNN_BACKEND_TENSOR_DESCRIPTOR)),
                          tensor_of(operation.object(weight, CUDNN_BACKEND_TENSOR_DESCRIPTOR)),
                          tensor_of(operation.object(y, CUDNN_BACKEND_TENSOR_DESCRIPTOR)),
                          window_of(operation.object(window, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR))};
    expect(made.x.is_in_memory() && made.weight.is_in_memory() && made.y.is_in_memory(), "tensors in memory");
    expect(made.has_fitting_shapes(), "shapes that fit");
    return made;
  };
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return read(CudnnConvolution::forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return read(CudnnConvolution::data, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
    default:
      return read(CudnnConvolution::filter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  }
}

namespace {

bool is_convolution(const Object& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

CudnnTensor tensor_at(const Object& operation, cudnnBackendAttributeName_t name) {
  return tensor_of(operation.object(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
}

CudnnStep pointwise_of(const Object& operation) {
  const Object& function = operation.object(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  CudnnStep step{.kind = CudnnStep::pointwise,
                 .mode = function.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE),
                 .reduced = {},
                 .precision = function.one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE),
                 .axis = std::nullopt,
                 .operands = {},
                 .result = tensor_at(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)};
  if (function.has(CUDNN_ATTR_POINTWISE_AXIS)) step.axis = function.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64);
  for (const auto name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
    if (operation.has(name)) step.operands.push_back(tensor_at(operation, name));
  return step;
}

CudnnStep step_of(const Object& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return pointwise_of(operation);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const Object& function = operation.object(CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
      return {CudnnStep::product,
              {},
              {},
              function.one<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
              {},
              {tensor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC), tensor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC)},
              tensor_at(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC)};
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      const Object& function = operation.object(CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
      return {CudnnStep::reduction,
              {},
              function.one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
              function.one<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
              {},
              {tensor_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)},
              tensor_at(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)};
    }
    default:
      expect(operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "an operation that is known");
      return {CudnnStep::reshape,
              {},
              {},
              {},
              {},
              {tensor_at(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)},
              tensor_at(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)};
  }
}

}  // namespace

void check_operation(const Object& operation) { is_convolution(operation) ? void(convolution_of(operation)) : step_of(operation).check(); }

std::variant<CudnnConvolution, CudnnComposition> described(const Object& graph) {
  const auto operations = graph.all<const Object*>(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  expect(!operations.empty(), "an operation");
  for (const Object* operation : operations) expect(operation->is_final, "final operations");
  if (is_convolution(*operations[0])) {
    expect(operations.size() == 1, "a convolution alone");
    return convolution_of(*operations[0]);
  }
  CudnnComposition composition;
  for (const Object* operation : operations) composition.steps.push_back(step_of(*operation));
  composition.check();
  return composition;
}

bool is_bf16_weight_gradient_in_f32(const Object& graph) {
  const auto what = described(graph);
  const auto* of = std::get_if<CudnnConvolution>(&what);
  return of && of->pass == CudnnConvolution::filter && of->x.dtype == CUDNN_DATA_BFLOAT16 && of->weight.dtype == CUDNN_DATA_FLOAT;
}

}  // namespace sluice::emulation
