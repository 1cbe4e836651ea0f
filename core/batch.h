#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "core/tensor.h"

namespace sluice {

/// A mini-batch: `samples` samples of named inputs, loaded only by who asks, so that a stage loads what it consumes and nothing else.
struct Batch {
  int64_t samples = 0;
  /// load(input, first, count) -> host tensor [count, ...] of samples first .. first+count-1 of the mini-batch. Called from any thread.
  std::function<Tensor(const std::string& input, int64_t first, int64_t count)> load;
};

/// One input: all its samples, as axis 0. In a list and not only in a map, which keeps one of two inputs with one name and says nothing.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A batch from tensors that are already there; all have the batch as axis 0.
/// Errors  UsageError when the numbers of samples differ or a name comes twice; asking for an input that is not there names the known ones.
Batch batch_of(std::initializer_list<NamedTensor> inputs);
Batch batch_of(std::map<std::string, Tensor> inputs);

}  // namespace sluice
