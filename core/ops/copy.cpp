#include "core/ops/copy.h"

#include "core/dispatch.h"
#include "core/no_elements.h"
#include "core/ops/overlap.h"

namespace sluice {

namespace {

/// Bytes between the host and a GPU. From the host the caller may go on at once; to the host it waits. No cost of the device: on a CPU
/// device the same hand-over takes no copy.
void copy_between_kinds(const Tensor& from, const Tensor& to) {
  require(to.is_contiguous(), "copy: needs a contiguous target to copy from ", from.device(), " to ", to.device());
  const Tensor source = cast(from, to.dtype()).contiguous();
  if (to.elements() == 0) return;
  if constexpr (build::has_cuda) {
    if (to.device().kind() == DeviceKind::cuda)
      to.device().cuda().upload(source.data(), to.data(), static_cast<size_t>(to.bytes()));
    else
      source.device().cuda().download(source.data(), to.data(), static_cast<size_t>(to.bytes()));
  }
}

}  // namespace

void copy(const Tensor& from, const Tensor& to) {
  require(from.shape() == to.shape(), "copy: needs equal shapes, got ", from.shape(), " and ", to.shape());
  require(
      !to.repeats_elements(),
      "copy: needs a target whose elements are all there, got a view by expand(), or borrowed memory with overlapping strides, of shape ",
      to.shape(), "; clone() it first");
  refuse_overlap("copy", from, to);
  Device &source = from.device(), &target = to.device();
  if (source.kind() != target.kind()) {
    require<NoElements>(
        source.kind() != DeviceKind::meta && target.kind() != DeviceKind::meta, "copy: needs two devices that hold elements, got ",
        source.name(), " and ", target.name(),
        "; a constant of a model is made where it is used, tensor(values, dtype, device), or is a parameter that is frozen");
    return copy_between_kinds(from, to);
  }
  if (source.kind() == DeviceKind::cuda && source.gpu() != target.gpu()) return copy(from.to(to.device_ptr()), to);
  if (&source != &target) target.wait_for(source.record());
  const Cost cost{0, static_cast<double>(from.bytes()), static_cast<double>(to.bytes())};
  run_kernel("copy", {to}, cost, [&](auto& context) { kernels::copy(context, from, to); });
  if (&source != &target) source.wait_for(target.record());
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor result = empty(x.shape(), dtype, x.device_ptr());
  copy(x, result);
  return result;
}

void fill(const Tensor& x, double value) {
  require(x.is_contiguous(), "fill: needs a contiguous tensor, got a strided view of ", x.shape());
  run_kernel("fill", {x}, {0, 0, static_cast<double>(x.bytes())}, [&](auto& context) { kernels::fill(context, x, value); });
}

}  // namespace sluice
