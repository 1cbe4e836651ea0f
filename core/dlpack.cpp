#include "core/dlpack.h"

#include <algorithm>
#include <array>

#include "core/no_elements.h"

namespace sluice {

using namespace dlpack;

namespace {

struct Entry {
  DLDataTypeCode code;
  uint8_t bits;
  DType dtype;
};
/// The first one of a dtype is what it is handed over as.
constexpr std::array<Entry, 7> kDtypes{{{kDLFloat, 32, DType::f32},
                                        {kDLBfloat, 16, DType::bf16},
                                        {kDLFloat, 64, DType::f64},
                                        {kDLInt, 32, DType::i32},
                                        {kDLInt, 64, DType::i64},
                                        {kDLUInt, 8, DType::u8},
                                        {kDLBool, 8, DType::u8}}};

DLDataType type_of(DType dtype) {
  const Entry& entry = *std::ranges::find(kDtypes, dtype, &Entry::dtype);
  return {entry.code, entry.bits, 1};
}

/// What the other library holds on to.
struct Exported {
  explicit Exported(const Tensor& x) : tensor(x) {
    const auto extents = x.shape().extents();
    std::ranges::copy(extents, shape.begin());
    for (int axis = 0; axis < x.rank(); ++axis) strides[axis] = x.stride(axis);
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Exported*>(self->manager_ctx); };
    managed.flags = x.repeats_elements() ? kReadOnly : 0;
    managed.dl_tensor.data = x.elements() > 0 ? x.data() : nullptr;
    managed.dl_tensor.ndim = x.rank();
    managed.dl_tensor.dtype = type_of(x.dtype());
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.data();
  }
  Exported(const Exported&) = delete;

  DLManagedTensorVersioned managed;
  Tensor tensor;
  std::array<int64_t, kMaxRank> shape{};
  Strides strides{};
};

}  // namespace

DlpackPtr to_dlpack(const Tensor& x) {
  require<NoElements>(x.device().kind() != DeviceKind::meta, "to_dlpack: needs a tensor with elements in memory, got ", x,
                      "; make it on a cpu or cuda device");
  auto exported = std::make_unique<Exported>(x);
  if (x.device().kind() == DeviceKind::cuda) {
    exported->managed.dl_tensor.device = {kDLCUDA, x.device().gpu()};
    x.device().synchronize();
  }
  return DlpackPtr(&exported.release()->managed);
}

namespace {

DType dtype_of_type(const DLDataType& type) {
  for (const Entry& entry : kDtypes)
    if (entry.code == type.code && entry.bits == type.bits && type.lanes == 1) return entry.dtype;
  throw UsageError(
      join("from_dlpack: needs float of 32 or 64 bits, bfloat of 16, int of 32 or 64, uint or bool of 8, in one lane, got code ",
           static_cast<int>(type.code), " of ", static_cast<int>(type.bits), " bits in ", type.lanes,
           " lanes; convert it to one of those before you hand it over"));
}

void require_place(const DLDevice& place, const Device& device) {
  const bool is_host = place.device_type == kDLCPU || place.device_type == kDLCUDAHost;
  const bool is_gpu = place.device_type == kDLCUDA || place.device_type == kDLCUDAManaged;
  require(is_host || is_gpu, "from_dlpack: needs memory of the host or of an NVIDIA GPU, got device type ", place.device_type,
          "; copy it to the host before you hand it over");
  const bool fits = is_host ? device.kind() == DeviceKind::cpu : device.kind() == DeviceKind::cuda && device.gpu() == place.device_id;
  const std::string name = is_host ? "cpu:0" : join("cuda:", place.device_id);
  require(fits, "from_dlpack: needs a device that has the memory, as ", name, " has, got ", device.name(), "; pass make_device(\"", name,
          "\"), and move the result with to()");
}

Shape shape_of(const DLTensor& tensor) {
  require(tensor.ndim >= 0 && tensor.ndim <= kMaxRank, "from_dlpack: needs 0 to ", kMaxRank, " axes, got ", tensor.ndim,
          "; reshape it before you hand it over");
  require(tensor.ndim == 0 || tensor.shape != nullptr, "from_dlpack: needs extents for ", tensor.ndim,
          " axes, got a null pointer; set shape");
  return Shape(std::span<const int64_t>(tensor.shape, static_cast<size_t>(tensor.ndim)));
}

Strides strides_of(const DLTensor& tensor, const Shape& shape) {
  if (tensor.strides == nullptr) return row_major(shape);
  Strides strides{};
  std::copy_n(tensor.strides, shape.rank(), strides.begin());
  return strides;
}

}  // namespace

Tensor from_dlpack(DlpackPtr managed, const DevicePtr& device) {
  require(managed != nullptr, "from_dlpack: needs a tensor, got a null pointer; was it taken before?");
  // Of other major versions only the version and the deleter are where they are here.
  require(managed->version.major == kMajorVersion, "from_dlpack: needs version ", kMajorVersion, " of DLPack, got ", managed->version.major,
          ".", managed->version.minor, "; ask the other library for that version (max_version in Python)");
  require(device != nullptr, "from_dlpack: needs a device, got none; default_device() is the CPU");
  const DLTensor& tensor = managed->dl_tensor;
  const bool is_read_only = (managed->flags & kReadOnly) != 0;
  const DType dtype = dtype_of_type(tensor.dtype);
  require_place(tensor.device, *device);
  const Shape shape = shape_of(tensor);
  const Strides strides = strides_of(tensor, shape);
  void* data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  const Tensor result = borrowed(data, shape, strides, dtype, device, std::shared_ptr<void>(std::move(managed)));
  return is_read_only ? result.clone() : result;
}

}  // namespace sluice
