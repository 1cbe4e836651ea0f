#pragma once
#include <vector>

#include "tests/ops/op_case.h"

namespace sluice::testing {

using Place = std::vector<int64_t>;  ///< an index for each axis

/// Calls f(place) for the elements of a shape in row-major order.
template <class F>
void each_place(const Shape& shape, const F& f) {
  for (int64_t at = 0; at < shape.elements(); ++at) {
    Place place(shape.rank());
    int64_t rest = at;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      place[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    f(place);
  }
}

/// How many elements come before a place, in row-major order.
inline int64_t offset_of(const Shape& shape, const Place& place) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + place[axis];
  return at;
}

/// A reference for ops that only take elements of their first input: y[place] = x[from(place)].
template <class F>
auto taken(const Shape& shape, F from) {
  return [shape, from](const std::vector<Tensor>& x) {
    const Values all = x[0].to_vector();
    Values y;
    each_place(shape, [&](const Place& place) { y.push_back(all[offset_of(x[0].shape(), from(place))]); });
    return y;
  };
}

}  // namespace sluice::testing
