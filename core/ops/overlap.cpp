#include "core/ops/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {

namespace {

/// Bytes from the first element of a view to the lowest and the highest that it has, the latter's own bytes left out.
std::pair<int64_t, int64_t> range_of(const Tensor& x) {
  int64_t low = 0, high = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t reach = (x.dim(axis) - 1) * x.stride(axis) * static_cast<int64_t>(size_of(x.dtype()));
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

/// Calls see(bytes from the first element) for every element.
template <class See>
void each_offset(const Tensor& x, const See& see, int axis = 0, int64_t at = 0) {
  if (axis == x.rank()) return see(at);
  for (int64_t i = 0; i < x.dim(axis); ++i)
    each_offset(x, see, axis + 1, at + i * x.stride(axis) * static_cast<int64_t>(size_of(x.dtype())));
}

bool is_same_view(const Tensor& a, const Tensor& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  for (int axis = 0; axis < a.rank(); ++axis)
    if (a.dim(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  return true;
}

bool share_elements(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<int64_t>(size_of(b.dtype()));
  const auto [low, high] = range_of(b);
  const int64_t distance = static_cast<const char*>(a.data()) - static_cast<const char*>(b.data());
  std::vector<bool> taken(static_cast<size_t>((high - low) / size + 1));
  each_offset(b, [&](int64_t offset) { taken[static_cast<size_t>((offset - low) / size)] = true; });
  bool found = false;
  each_offset(a, [&](int64_t offset) {
    const int64_t at = offset + distance - low;
    if (at >= 0 && at <= high - low) found = found || taken[static_cast<size_t>(at / size)];
  });
  return found;
}

/// Both have elements of one storage, and so far as their ends tell the same ones.
bool ranges_meet(const Tensor& a, const Tensor& b) {
  if (!a.shares_storage(b) || a.device().kind() == DeviceKind::meta || a.elements() == 0 || b.elements() == 0) return false;
  const auto [a_low, a_high] = range_of(a);
  const auto [b_low, b_high] = range_of(b);
  const auto *first = static_cast<const char*>(a.data()), *second = static_cast<const char*>(b.data());
  return first + a_high >= second + b_low && second + b_high >= first + a_low;
}

}  // namespace

void refuse_overlap(const char* op, const Tensor& from, const Tensor& to) {
  if (ranges_meet(from, to) && !is_same_view(from, to)) refuse_shared_elements(op, from, to);
}

void refuse_shared_elements(const char* op, const Tensor& from, const Tensor& to) {
  require(!ranges_meet(from, to) || !share_elements(from, to), op, ": needs a target apart from what it reads, got two views, ",
          from.shape(), " and ", to.shape(), ", that have elements of one tensor in common; read a clone() of it");
}

}  // namespace sluice
