#include "core/tensor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "build_config.h"
#include "core/arena.h"
#include "core/cuda/cuda.h"
#include "core/integer_range.h"
#include "core/no_elements.h"
#include "core/ops/copy.h"
#include "core/wait_before_free.h"

namespace sluice {

namespace {

/// Memory of a device's arena, or from outside. Shared by all storages that alias it; given back when the last one is gone. Null on meta.
struct Memory {
  Memory(DevicePtr owner, int64_t bytes) : device(std::move(owner)), block(device->arena().take(bytes)) {}
  Memory(DevicePtr user, void* data, std::shared_ptr<void> owner) : device(std::move(user)), block{data, 0}, outside(std::move(owner)) {}
  ~Memory() {
    if (outside)
      wait_for_uses();
    else
      device->arena().give_back(block, std::move(others));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void wait_for_uses() noexcept {
    try {
      wait_before_free(device->record());
    } catch (const Error&) {  // the GPU failed, and no work of it uses the memory any more
    }
    std::ranges::for_each(others, wait_before_free);
  }

  /// Another device reads the memory: its work so far has to end before the block serves again.
  void add_use(const Device& other) noexcept {
    try {
      const Event event = other.record();
      if (!event) return;
      std::lock_guard lock(mutex);
      others.push_back(event);
    } catch (const Error&) {  // the GPU failed, and the device's next call says so
    }
  }

  DevicePtr device;
  Arena::Block block;
  std::shared_ptr<void> outside;  ///< what holds memory from outside; null for the arena's
  std::mutex mutex;
  std::vector<Event> others;
};

bool share_memory(const Device& a, const Device& b) { return a.kind() == b.kind() && (a.kind() != DeviceKind::cuda || a.gpu() == b.gpu()); }

}  // namespace

/// A charge on one device for a piece of memory.
struct Tensor::Storage {
  Storage(DevicePtr where, int64_t bytes) : device(std::move(where)), charged(Device::charged_size(bytes)) {
    device->charge(charged);
    if (device->kind() == DeviceKind::meta || bytes == 0) return;
    try {
      memory = std::make_shared<Memory>(device, charged);
    } catch (const std::bad_alloc&) {
      device->release(charged);
      throw OutOfMemory(
          join(device->name(), ": the system has no ", charged,
               " bytes of memory left; end other programs, or where a model is trained use more micro-batches or more rematerialization"));
    } catch (...) {
      device->release(charged);
      throw;
    }
  }
  /// Counts the bytes of memory that another storage has or will have.
  struct Counted {};
  Storage(Counted, DevicePtr where, int64_t bytes) : device(std::move(where)), charged(Device::charged_size(bytes)), is_aliased(true) {
    device->charge(charged);
  }
  /// An alias of other's memory that counts `bytes` on a device.
  Storage(DevicePtr where, Storage& other, int64_t bytes)
      : device(std::move(where)), charged(bytes), memory(other.memory), is_aliased(true) {
    other.is_aliased = true;
    device->charge(charged);
  }
  /// Memory from outside, which counts nowhere.
  explicit Storage(std::shared_ptr<Memory> outside) : device(outside->device), charged(0), memory(std::move(outside)), is_aliased(true) {}
  ~Storage() {
    if (memory && memory->device != device) memory->add_use(*device);
    memory.reset();  // first, so that what is not counted any more can be had again
    device->release(charged);
  }
  Storage& operator=(const Storage&) = delete;

  DevicePtr device;
  int64_t charged;  ///< bytes counted on the device: those of the memory, of an alias's elements, or of what is still to come; or 0
  std::shared_ptr<Memory> memory;
  /// Another storage had this memory at some time: a property of the program, not of chance. Set by several threads when stages
  /// load the same input.
  std::atomic<bool> is_aliased{false};
};

Device& Tensor::device() const { return *device_ptr(); }

const DevicePtr& Tensor::device_ptr() const {
  require(defined(), "tensor: needs a defined tensor, got an empty handle");
  return storage_->device;
}

void* Tensor::address(DType dtype) const {
  // Messages are built on failure only: kernels call this often.
  if (!defined() || dtype != dtype_)
    throw UsageError(join("tensor: needs elements of ", name_of(dtype), ", got ", *this, "; cast() converts"));
  if (!storage_->memory) {
    if (elements() > 0)
      throw NoElements(
          join("tensor: ", *this,
               " has no elements in memory: meta devices only count; a model that reads elements in forward() is planned with a given "
               "partition and number of micro-batches, or PartitionRule::uniform"));
    return nullptr;
  }
  return static_cast<char*>(storage_->memory->block.data) + offset_ * static_cast<int64_t>(size_of(dtype_));
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::dense() const { return is_contiguous() && storage_->charged <= Device::charged_size(bytes()) ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor result = empty_like(*this);
  copy(*this, result);
  return result;
}

Tensor Tensor::to(const DevicePtr& device) const {
  require(device != nullptr, "to: needs a device, got none; default_device() is the CPU");
  if (device == device_ptr()) return *this;
  if (share_memory(this->device(), *device)) {
    device->wait_for(this->device().record());
    return charged_to(device);
  }
  Tensor result = empty(shape_, dtype_, device);
  if constexpr (build::has_cuda)
    if (device->kind() == DeviceKind::cuda && this->device().kind() == DeviceKind::cuda) {
      if (elements() == 0) return result;
      const Tensor source = contiguous();
      device->wait_for(source.device().record());  // also for the copy that made it row-major
      device->cuda().copy_from(source.device().cuda(), source.data(), result.data(), static_cast<size_t>(bytes()));
      source.storage_->memory->add_use(*device);
      return result;
    }
  copy(*this, result);
  return result;
}

Tensor Tensor::charged_to(const DevicePtr& device) const {
  require(share_memory(this->device(), *device), "hand-over: needs two devices that share memory, got ", this->device(), " and ", *device);
  Tensor result = *this;
  result.storage_ = std::make_shared<Storage>(device, *storage_, Device::charged_size(bytes()));
  return result;
}

std::pair<Tensor, Event> Tensor::handed_to(const Tensor& room, const Event& ready, [[maybe_unused]] const Event& free) const {
  require(room.shape() == shape_ && room.dtype() == dtype_ && is_contiguous(),
          "hand-over: needs row-major elements and room for them, got ", *this, " for ", room);
  Tensor there = room;
  storage_->is_aliased = true;
  if (share_memory(device(), room.device())) {
    there = *this;
    there.storage_ = room.storage_;
    there.storage_->memory = storage_->memory;
    return {there, ready};
  }
  if constexpr (build::has_cuda)
    if (elements() > 0)
      return {there, room.device().cuda().receive(device().cuda(), data(), room.data(), static_cast<size_t>(bytes()), ready, free)};
  return {there, ready};
}

Tensor Tensor::uncharged() const {
  Tensor result = *this;
  result.storage_ = std::make_shared<Storage>(device_ptr(), *storage_, 0);
  return result;
}

Tensor Tensor::on_host() const { return (device().kind() == DeviceKind::cuda ? to(default_device()) : *this).contiguous(); }

Tensor Tensor::one_on_host() const {
  require(elements() == 1, "item: needs exactly one element, got ", *this);
  return on_host();
}

double Tensor::item() const { return items(device(), {this, 1})[0]; }

std::vector<double> Tensor::to_vector() const {
  const Tensor x = on_host();
  std::vector<double> result(elements());
  on_any(dtype_, "to_vector", [&]<class T>() { std::copy_n(x.data<T>(), elements(), result.begin()); });
  return result;
}

namespace {

void* data_of(const Tensor& x) {
  return on_any(x.dtype(), "items", [&]<class T>() { return static_cast<void*>(x.data<T>()); });
}

/// By one copy.
std::vector<Tensor> on_host(Cuda& cuda, std::span<const Tensor> tensors) {
  std::vector<Tensor> copies;
  std::vector<Cuda::Number> numbers;
  for (const Tensor& x : tensors) {
    copies.push_back(empty(x.shape(), x.dtype()));
    numbers.push_back({data_of(x), data_of(copies.back()), static_cast<size_t>(x.bytes())});
  }
  cuda.read(numbers);
  return copies;
}

}  // namespace

std::vector<double> items(Device& device, std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) {
    require(x.elements() == 1, "item: needs exactly one element, got ", x);
    require(&x.device() == &device, "items: needs tensors on ", device, ", got ", x);
  }
  std::vector<Tensor> copies;
  if constexpr (build::has_cuda)
    if (device.kind() == DeviceKind::cuda) copies = on_host(device.cuda(), tensors);
  std::vector<double> result;
  for (const Tensor& x : copies.empty() ? tensors : std::span<const Tensor>(copies)) result.push_back(x.to_vector()[0]);
  return result;
}

Tensor empty(const Shape& shape, DType dtype, const DevicePtr& device) {
  require(device != nullptr, "empty: needs a device, got a null pointer; make_device(\"cpu:0\") makes one");
  constexpr int64_t kMost = INT64_MAX - 64;  // what is charged is rounded up
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.elements(), static_cast<int64_t>(size_of(dtype)), &bytes) && bytes <= kMost, "empty: ", shape,
          " of ", name_of(dtype), " does not fit in 63 bits of bytes");
  Tensor result;
  result.storage_ = std::make_shared<Tensor::Storage>(device, bytes);
  result.shape_ = shape;
  result.strides_ = row_major(shape);
  result.dtype_ = dtype;
  return result;
}

Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device, const Device& giver) {
  if (!share_memory(*device, giver)) return room_for(shape, dtype, device);
  Tensor room;
  room.storage_ =
      std::make_shared<Tensor::Storage>(Tensor::Storage::Counted{}, device, shape.elements() * static_cast<int64_t>(size_of(dtype)));
  room.shape_ = shape;
  room.strides_ = row_major(shape);
  room.dtype_ = dtype;
  return room;
}

Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device) {
  Tensor room = empty(shape, dtype, device);
  room.storage_->is_aliased = true;
  return room;
}

namespace {

/// The farthest element has an address, and each lies at a multiple of its size.
void require_addresses(const void* data, const Shape& shape, const Strides& strides, DType dtype) {
  int64_t end = static_cast<int64_t>(size_of(dtype));
  bool is_reachable = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] <= 1) continue;
    require(strides[axis] >= 0, "borrowed memory: needs strides >= 0, got ", strides[axis], " at axis ", axis,
            "; copy it to row-major order first");
    int64_t span = 0;
    is_reachable = is_reachable &&
                   !__builtin_mul_overflow(strides[axis], (shape[axis] - 1) * static_cast<int64_t>(size_of(dtype)), &span) &&
                   !__builtin_add_overflow(end, span, &end);
  }
  require(is_reachable, "borrowed memory: needs strides within 63 bits of bytes, got more for ", shape,
          "; check the strides, which count elements");
  require(data != nullptr && reinterpret_cast<uintptr_t>(data) % size_of(dtype) == 0,
          "borrowed memory: needs an address that is a multiple of ", size_of(dtype), " for ", name_of(dtype), ", got ", data,
          "; copy it to memory of its own first");
}

}  // namespace

Tensor borrowed(void* data, const Shape& shape, const Strides& strides, DType dtype, const DevicePtr& device, std::shared_ptr<void> owner) {
  require(device != nullptr && device->kind() != DeviceKind::meta, "borrowed memory: needs a cpu or cuda device, got ",
          device ? device->name() : "none");
  if (shape.elements() == 0) return empty(shape, dtype, device);
  require_addresses(data, shape, strides, dtype);
  Tensor result;
  result.storage_ = std::make_shared<Tensor::Storage>(std::make_shared<Memory>(device, data, std::move(owner)));
  result.shape_ = shape;
  result.strides_ = strides;
  result.dtype_ = dtype;
  return result;
}

Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype(), x.device_ptr()); }

Tensor zeros(const Shape& shape, DType dtype, const DevicePtr& device) { return full(shape, 0, dtype, device); }

Tensor ones(const Shape& shape, DType dtype, const DevicePtr& device) { return full(shape, 1, dtype, device); }

Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype(), x.device_ptr()); }

namespace {

/// Of numbers that become integers, and lose their fraction: outside the dtype's range there is none that they could become.
void require_range(const char* op, DType dtype, double value, const std::pair<double, double>& range) {
  if (is_floating(dtype)) return;
  const auto [least, largest] = range;
  require(std::trunc(value) >= least && std::trunc(value) <= largest, op, ": needs numbers in the range of ", sluice::name_of(dtype),
          ", got ", value, cure_of_range(dtype));
}

}  // namespace

Tensor full(const Shape& shape, double value, DType dtype, const DevicePtr& device) {
  require_range("full", dtype, value, range_of_numbers(dtype));
  Tensor result = empty(shape, dtype, device);
  fill(result, value);
  return result;
}

Tensor tensor_of(const std::vector<double>& elements, const Shape& shape, DType dtype, const DevicePtr& device) {
  require(static_cast<int64_t>(elements.size()) == shape.elements(), "tensor_of: needs ", shape.elements(), " elements for shape ", shape,
          ", got ", elements.size());
  for (const double element : elements) require_range("tensor_of", dtype, element, integer_range(dtype));
  if (device->kind() == DeviceKind::cuda) return tensor_of(elements, shape, dtype).to(device);
  Tensor result = empty(shape, dtype, device);
  if (device->kind() == DeviceKind::meta) return result;
  on_any(dtype, "tensor_of", [&]<class T>() {
    std::transform(elements.begin(), elements.end(), result.data<T>(), [](double value) { return static_cast<T>(value); });
  });
  return result;
}

bool Tensor::is_exclusive() const { return defined() && storage_.use_count() == 1 && !storage_->is_aliased; }

}  // namespace sluice
