#pragma once
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace sluice {

/// A strided view of shared storage on one device. Copying a Tensor copies the view, not the elements.
///
/// Views (slice, select, transpose, permute, reshape, squeeze, unsqueeze, flatten, expand) share storage and never copy. Elements are
/// row-major unless a view skips, permutes or repeats them.
/// A default-constructed Tensor is undefined: it stands for "no tensor" (a gradient that nobody asked for).
/// Threads  distinct Tensors may be used from distinct threads, also when they share storage that nobody writes.
/// Errors   UsageError for a bad shape, axis or range; OutOfMemory when storage does not fit the device's budget.
class Tensor {
 public:
  Tensor() = default;

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(size_of(dtype_)); }
  DType dtype() const { return dtype_; }
  Device& device() const;
  const DevicePtr& device_ptr() const;
  /// Distance between neighbours along an axis, in elements.
  int64_t stride(int axis) const { return strides_[normal_axis("stride", axis, rank())]; }
  bool is_contiguous() const;

  /// The first element. Not for meta tensors, which have no memory. T must be the element type.
  template <class T>
  T* data() const {
    return static_cast<T*>(address(dtype_of<T>()));
  }
  void* data() const { return address(dtype_); }

  /// A view with another shape of as many elements: axes are merged and split as far as no element has to move in memory.
  /// Errors  UsageError when the elements do not match or would have to move.
  Tensor reshape(const Shape& shape) const;
  bool can_reshape(const Shape& shape) const;
  /// A view of every step-th of [begin, end) along an axis, step >= 1; negative ends count from the axis's end, which kEnd stands for.
  Tensor slice(int axis, int64_t begin, int64_t end = kEnd, int64_t step = 1) const;
  /// A view without an axis, at one index of it; negative ones count from the end. x[i] is x.select(0, i).
  Tensor select(int axis, int64_t index) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// A view with two axes exchanged.
  Tensor transpose(int a, int b) const;
  /// A view with the axes in another order: axis i of the view is axes[i]. Errors  UsageError unless each axis comes once.
  Tensor permute(const std::vector<int>& axes) const;
  /// A view without an axis of extent 1, or without all of them. Errors  UsageError for an axis of another extent.
  Tensor squeeze(int axis) const;
  Tensor squeeze() const;
  /// A view with one axis of extent 1 more, which is then `axis` of the view.
  Tensor unsqueeze(int axis) const;
  /// A view in which the axes first..last are one. Errors  UsageError when elements would have to move, as for reshape.
  Tensor flatten(int first = 0, int last = -1) const;
  /// A view in which x is repeated along the axes that it lacks or has with extent 1, without memory for that: strides of 0. It can be read
  /// like any other, by every op; `copy` into it is refused. Errors  UsageError when x does not broadcast to the shape.
  Tensor expand(const Shape& shape) const;
  /// Elements of this view share memory, as `expand` makes them, or may: those of one axis lie among those of another, as no view of Sluice's
  /// own but only borrowed memory may have them.
  bool repeats_elements() const;
  /// This tensor when it is contiguous, else a row-major copy.
  Tensor contiguous() const;
  /// A row-major copy.
  Tensor clone() const;
  /// This tensor when it is contiguous and all of what its storage counts, else a row-major copy: what a device hands over, so that the
  /// memory that the other one then holds is no more than the elements that it counts.
  Tensor dense() const;

  /// This tensor on another device: the same memory counted there where both can use it (`charged_to`), else a copy. The other device's
  /// later work waits for all work of this one so far.
  /// Threads  that of both devices, as for any op.
  Tensor to(const DevicePtr& device) const;
  /// This tensor in the room that another device made for it (`room_for`): the same memory where both can use it, else a copy, which overlaps
  /// the work of both. `ready` is an event of this device at which the elements are there, `free` one of the other at which the room may be
  /// written. The event returned is the one at which the elements are there, for both devices to wait for: the other one before it reads,
  /// this one before it frees.
  /// Threads  any: no kernel runs.
  /// Errors   UsageError for room of another shape or dtype, and for elements that are not row-major.
  std::pair<Tensor, Event> handed_to(const Tensor& room, const Event& ready, const Event& free) const;
  /// The same memory, this tensor's bytes counted on another device that can use it: CPU devices, meta devices, devices of one GPU. The
  /// memory is not used again before the other device's work on it is done.
  Tensor charged_to(const DevicePtr& device) const;
  /// The same memory, counted on no device: what a message holds, so that counts do not depend on when it is received.
  Tensor uncharged() const;
  /// Nothing else refers to these elements, so that they may be overwritten: one handle, and no device was ever handed the memory.
  bool is_exclusive() const;
  /// Both are views of one storage.
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }

  /// The one element as double. Errors  UsageError unless there is exactly one.
  double item() const;
  /// All elements, row-major, as doubles; for tests and small results.
  std::vector<double> to_vector() const;
  /// The same as they are. Errors  UsageError when T is not the element type.
  template <class T>
  T item() const {
    return *one_on_host().data<T>();
  }
  template <class T>
  std::vector<T> to_vector() const {
    const Tensor x = on_host();
    return {x.data<T>(), x.data<T>() + x.elements()};
  }
  /// This tensor where it is contiguous and on a CPU device, else a row-major copy: on the default device of what is on a GPU.
  Tensor on_host() const;

  friend Tensor empty(const Shape& shape, DType dtype, const DevicePtr& device);
  friend Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device, const Device& giver);
  friend Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device);
  friend Tensor borrowed(void* data, const Shape& shape, const Strides& strides, DType dtype, const DevicePtr& device,
                         std::shared_ptr<void> owner);
  friend Tensor flip(const Tensor& x, const std::vector<int>& axes);

 private:
  struct Storage;
  void* address(DType dtype) const;
  Tensor one_on_host() const;
  /// A view from the last element of an axis to the first: a negative stride, which only `copy` takes.
  Tensor reversed(int axis) const;

  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  ///< in elements
  Shape shape_;
  Strides strides_{};
  DType dtype_ = DType::f32;
};

/// Uninitialised elements.
Tensor empty(const Shape& shape, DType dtype = DType::f32, const DevicePtr& device = default_device());
Tensor empty_like(const Tensor& x);
/// Room for a tensor that another device is going to hand over: counted on `device` from now on, and memory where the two share none. What
/// arrives there is never exclusive, so that this does not depend on the kind of devices.
Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device, const Device& giver);
/// The same for what comes from another process: always memory.
Tensor room_for(const Shape& shape, DType dtype, const DevicePtr& device);
/// A tensor over memory from outside Sluice, without a copy. `owner` is held until the last view is gone and the device's work on it done,
/// for which the last one to go waits. The memory is counted on no device, as no budget bounds what another library takes, and is never
/// exclusive, so that no op makes its result there.
/// Errors  UsageError for a meta device, for elements without memory or not at a multiple of their size, and for negative strides.
Tensor borrowed(void* data, const Shape& shape, const Strides& strides, DType dtype, const DevicePtr& device, std::shared_ptr<void> owner);
Tensor zeros(const Shape& shape, DType dtype = DType::f32, const DevicePtr& device = default_device());
Tensor ones(const Shape& shape, DType dtype = DType::f32, const DevicePtr& device = default_device());
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, const DevicePtr& device = default_device());
/// Row-major, of the shape, dtype and device of x.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
/// Elements from a list in row-major order, converted to a dtype; `tensor` (core/elements.h) keeps their type.
/// Errors  UsageError when the number does not match the shape, and, as of full(), for numbers outside the range of an integer dtype.
Tensor tensor_of(const std::vector<double>& elements, const Shape& shape, DType dtype = DType::f32,
                 const DevicePtr& device = default_device());

/// Tensor::item() of each, all on one device, after all work of the device: one copy to the host and one wait for it, also of none.
/// Errors  UsageError for a tensor of another device, or of another number of elements than one; what Device::synchronize() throws.
std::vector<double> items(Device& device, std::span<const Tensor> tensors);

/// "f32 [2, 3] on cpu:0": what messages show of a tensor.
void describe(std::ostream& out, const Tensor& x);
/// The values as NumPy prints them, then in a line of its own the description: "[1.  2.5]\nf32 [2] on cpu:0". Of more than 1000 elements
/// only the first and last 3 of each axis are shown, and brought from a GPU.
/// Threads  that of the device, as for any op.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace sluice
