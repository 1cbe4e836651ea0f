#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace sluice::emulation {

/// Device memory for `count` elements, freed with the object.
template <class T>
struct DeviceArray {
  explicit DeviceArray(size_t elements) : count(elements) { EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::vector<T> values() const {
    std::vector<T> result(count);
    EXPECT_EQ(cudaMemcpy(result.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess)
        << cudaGetErrorString(cudaPeekAtLastError());
    return result;
  }

  T* data = nullptr;
  size_t count;
};

struct Shape {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t run(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  const cudaLaunchConfig_t config{shape.grid, shape.block, shape.shared_bytes, shape.stream};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// The text of the fault that the launch ends with on the default stream; empty when it succeeds.
template <class... Parameters, class... Arguments>
std::string fault_of(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  const cudaError_t status = run(shape, kernel, arguments...);
  const std::string text = status == cudaSuccess ? "" : cudaGetErrorString(status);
  reset();
  return text;
}

/// EXPECT that a text contains another.
inline testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part << '"';
}

}  // namespace sluice::emulation
