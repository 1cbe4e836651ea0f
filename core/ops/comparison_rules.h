#pragma once
#include "core/host_device.h"
#include "core/ops/comparison.h"

namespace sluice {

namespace rules {

struct Less {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return a < b;
  }
};
struct LessEqual {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return a <= b;
  }
};
struct Equal {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return a == b;
  }
};
struct NotEqual {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return a != b;
  }
};
// Without a jump between the two, so that loops are vectorised.
struct And {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return (a != 0) & (b != 0);
  }
};
struct Or {
  template <class V>
  SLUICE_HD static bool value(V a, V b) {
    return (a | b) != 0;
  }
};

}  // namespace rules

/// Calls f.template operator()<Rule, T>() for a rule and the dtype of its operands.
template <class F>
void on_comparison(Comparison rule, DType dtype, F&& f) {
  if (rule == Comparison::And) return f.template operator()<rules::And, uint8_t>();
  if (rule == Comparison::Or) return f.template operator()<rules::Or, uint8_t>();
  on_any(dtype, "compare", [&]<class T>() {
    if (rule == Comparison::Less) return f.template operator()<rules::Less, T>();
    if (rule == Comparison::LessEqual) return f.template operator()<rules::LessEqual, T>();
    if (rule == Comparison::Equal) return f.template operator()<rules::Equal, T>();
    f.template operator()<rules::NotEqual, T>();
  });
}

}  // namespace sluice
