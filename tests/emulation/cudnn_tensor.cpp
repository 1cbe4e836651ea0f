#include "tests/emulation/cudnn_tensor.h"

#include "core/dtype.h"

namespace sluice::emulation {

namespace {

template <class F>
decltype(auto) on_type(cudnnDataType_t dtype, const F& f) {
  if (dtype == CUDNN_DATA_BFLOAT16) return f.template operator()<bfloat16>();
  return f.template operator()<float>();
}

}  // namespace

int64_t CudnnTensor::elements() const {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

int64_t CudnnTensor::span() const {
  int64_t last = 0;
  for (size_t axis = 0; axis < 4; ++axis) last += (extents[axis] - 1) * strides[axis];
  return last + 1;
}

int64_t CudnnTensor::offset(const CudnnIndices& at) const {
  int64_t sum = 0;
  for (size_t axis = 0; axis < 4; ++axis) sum += at[axis] * strides[axis];
  return sum;
}

std::vector<double> numbers(const CudnnTensor& tensor, const void* data) {
  return on_type(tensor.dtype, [&]<class T>() {
    const T* from = static_cast<const T*>(data);
    return std::vector<double>(from, from + tensor.span());
  });
}

void store(const CudnnTensor& tensor, const std::vector<double>& values, double factor, void* data) {
  on_type(tensor.dtype, [&]<class T>() {
    each_element(tensor.extents, [&](const CudnnIndices& at) {
      const int64_t i = tensor.offset(at);
      static_cast<T*>(data)[i] = static_cast<T>(static_cast<float>(values[i] * factor));
    });
  });
}

double rounded(cudnnDataType_t dtype, double value) {
  return on_type(dtype, [&]<class T>() { return static_cast<double>(static_cast<T>(static_cast<float>(value))); });
}

}  // namespace sluice::emulation
