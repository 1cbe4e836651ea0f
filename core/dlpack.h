#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/tensor.h"

namespace sluice {

/// The structures of DLPack 1, by which libraries hand tensors to each other without a copy. Names and layout are the specification's, so
/// a pointer to another library's DLManagedTensorVersioned may be cast to this one.
/// Source  github.com/dmlc/dlpack: dlpack.h 1.1.
namespace dlpack {

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 1;

enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
enum DLDataTypeCode : uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;  ///< of DLManagedTensorVersioned::flags

struct DLPackVersion {
  uint32_t major = kMajorVersion, minor = kMinorVersion;
};

struct DLDevice {
  int32_t device_type = kDLCPU;
  int32_t device_id = 0;
};

struct DLDataType {
  uint8_t code = kDLFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;
};

struct DLTensor {
  void* data = nullptr;
  DLDevice device;
  int32_t ndim = 0;
  DLDataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  ///< in elements; null: row-major
  uint64_t byte_offset = 0;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx = nullptr;
  void (*deleter)(DLManagedTensorVersioned* self) = nullptr;
  uint64_t flags = 0;
  DLTensor dl_tensor;
};

static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
              offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40 &&
              sizeof(DLTensor) == 48);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8 && offsetof(DLManagedTensorVersioned, deleter) == 16 &&
              offsetof(DLManagedTensorVersioned, flags) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32 &&
              sizeof(DLManagedTensorVersioned) == 80);

}  // namespace dlpack

struct DlpackDeleter {
  void operator()(dlpack::DLManagedTensorVersioned* managed) const {
    if (managed->deleter) managed->deleter(managed);
  }
};
/// A tensor between two libraries. Owns  it: the deleter is called once, by whoever holds this last; release() hands it to C.
using DlpackPtr = std::unique_ptr<dlpack::DLManagedTensorVersioned, DlpackDeleter>;

/// A tensor for another library: the same memory, shape and strides, without a copy. It keeps the memory until the deleter is called; what
/// the other library still computes with it then has to be done. A view by expand() is flagged read-only.
/// On a GPU this waits for the device's work, so that any stream may read the memory at once.
/// Dtypes   all.
/// Errors   UsageError for an undefined tensor and for one on a meta device.
/// Threads  that of the device, as for any op; the deleter: any.
DlpackPtr to_dlpack(const Tensor& x);

/// A tensor of another library: the same memory, without a copy, on `device`, as `borrowed` counts it. The deleter is called once: when the
/// last view is gone and the device's work on it done, or at once when the tensor is refused or copied. Memory that is flagged
/// read-only is copied, as every Tensor may be written. Where strides let elements share memory, as after another library's expand(), the
/// tensor is read in place, and ops that would write into it refuse it as they refuse a view by Tensor::expand().
/// Who hands over memory of a GPU waits for the work that fills it first.
/// Dtypes   float of 32 and 64 bits, bfloat of 16, int of 32 and 64, uint of 8, and bool as u8.
/// Errors   UsageError for another version, dtype, rank or device of the memory, for negative strides and for missing parts.
Tensor from_dlpack(DlpackPtr managed, const DevicePtr& device = default_device());

}  // namespace sluice
