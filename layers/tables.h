#pragma once
#include <map>

#include "layers/module.h"

namespace sluice::layers {

/// Of a table, where activations have that dtype.
inline DType dtype_of(const TableSpec& table, DType activations) { return table.as_activations ? activations : compute_dtype(activations); }

/// The tables of the modules on one device, each made once, for Call::tables.
/// Threads  one.
/// Owns     nothing of the device for long: a table is freed with this object and with all that took it.
class Tables {
 public:
  Tables(DevicePtr device, DType activations) : device_(std::move(device)), activations_(activations) {}
  /// In the order of Module::tables().
  std::vector<Tensor> of(const Module& module);

 private:
  DevicePtr device_;
  DType activations_;
  std::map<TableSpec, Tensor> made_;
};

}  // namespace sluice::layers
