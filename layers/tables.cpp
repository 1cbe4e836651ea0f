#include "layers/tables.h"

#include "core/ops/sinusoids.h"

namespace sluice::layers {

std::vector<Tensor> Tables::of(const Module& module) {
  std::vector<Tensor> tables;
  for (const TableSpec& spec : module.tables()) {
    Tensor& table = made_[spec];
    if (!table.defined()) table = sinusoids({.count = spec.length, .width = spec.width}, dtype_of(spec, activations_), device_);
    tables.push_back(table);
  }
  return tables;
}

}  // namespace sluice::layers
