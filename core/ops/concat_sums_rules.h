#pragma once
#include "core/ops/elementwise_rules.h"

/// What concat_sums does to every sum, written once for CPU and CUDA kernels.
namespace sluice::rules {

struct Unchanged {
  template <class V>
  SLUICE_HD static V value(V x) {
    return x;
  }
  template <class V>
  SLUICE_HD static V slope(V) {
    return V(1);
  }
};

/// Calls f<Rule>().
template <class F>
void on_relu_or_unchanged(bool relu, F&& f) {
  if (relu) return f.template operator()<Relu>();
  f.template operator()<Unchanged>();
}

}  // namespace sluice::rules
