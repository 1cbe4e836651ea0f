#include "core/cuda/cudnn_convolution.h"

#include <algorithm>
#include <array>

namespace sluice::cudnn {

namespace {

using Pass = onednn::ConvolutionPass;

constexpr int64_t kX = 'x', kWeight = 'w', kY = 'y';

cudnnDataType_t data_type(DType dtype) { return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

/// Images [images, h, w, channels] or weights [outputs, h, w, channels], row-major: the library counts their axes as n, c, h, w.
Descriptor tensor(const Library& library, int64_t uid, DType dtype, int64_t n, int64_t h, int64_t w, int64_t c) {
  const std::array<int64_t, 4> extents{n, c, h, w}, strides{h * w * c, 1, w * c, c};
  Descriptor made(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype));
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(extents));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  made.finalize();
  return made;
}

/// Padding behind the last row or column that a window reaches.
int64_t padding_behind(int64_t in, int64_t out, int64_t size, int64_t stride, int64_t before) {
  return std::max<int64_t>(0, (out - 1) * stride + size - in - before);
}

Descriptor window_of(const Library& library, const Convolution& of) {
  const std::array<int64_t, 2> strides{of.stride_h, of.stride_w}, dilations{1, 1}, before{of.before_h, of.before_w},
      behind{padding_behind(of.in_h, of.out_h, of.size_h, of.stride_h, of.before_h),
             padding_behind(of.in_w, of.out_w, of.size_w, of.stride_w, of.before_w)};
  Descriptor made(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const int64_t>(strides));
  made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const int64_t>(dilations));
  made.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const int64_t>(before));
  made.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const int64_t>(behind));
  made.finalize();
  return made;
}

/// A pass's operation and the names of its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, window, alpha, beta;
};
constexpr OperationNames kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr OperationNames kInputGradient{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr OperationNames kWeightGradient{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const OperationNames& names_of(Pass pass) {
  return pass == Pass::forward ? kForward : pass == Pass::input_gradient ? kInputGradient : kWeightGradient;
}

std::vector<int64_t> uids_of(Pass pass) {
  if (pass == Pass::forward) return {kX, kWeight, kY};
  if (pass == Pass::input_gradient) return {kY, kWeight, kX};
  return {kY, kX, kWeight};
}

}  // namespace

std::shared_ptr<const Graph> graph_of(const Library& library, const Convolution& of) {
  const DType weight_dtype = of.pass == Pass::weight_gradient ? compute_dtype(of.dtype) : of.dtype;
  const auto graph = std::make_shared<Graph>();
  graph->uids = uids_of(of.pass);
  auto& parts = graph->parts;
  parts.push_back(tensor(library, kX, of.dtype, of.images, of.in_h, of.in_w, of.channels));
  parts.push_back(tensor(library, kWeight, weight_dtype, of.outputs, of.size_h, of.size_w, of.channels));
  parts.push_back(tensor(library, kY, of.dtype, of.images, of.out_h, of.out_w, of.outputs));
  parts.push_back(window_of(library, of));
  const OperationNames& names = names_of(of.pass);
  Descriptor operation(library, names.operation);
  operation.set(names.x, parts[0]);
  operation.set(names.weight, parts[1]);
  operation.set(names.y, parts[2]);
  operation.set(names.window, parts[3]);
  operation.set(names.alpha, 1.f);
  operation.set(names.beta, 0.f);
  operation.finalize();
  Descriptor whole(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  whole.finalize();
  parts.push_back(std::move(operation));
  parts.push_back(std::move(whole));
  return graph;
}

}  // namespace sluice::cudnn
