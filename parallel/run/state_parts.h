#pragma once
#include <map>
#include <string>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/run/shards.h"

namespace sluice::parallel {

/// A tensor that a checkpoint keeps, or a part of one.
struct StatePart {
  std::string name;       ///< that of the whole in a checkpoint
  Shape shape;            ///< of the whole
  ElementRange elements;  ///< of the whole, which `tensor` has
  Tensor tensor;          ///< of that shape, or the part's elements as a list

  bool is_whole() const { return elements.count == shape.elements(); }
};

/// The tensors of parts that all ranks have between them, where one has copies of another's too, each on the lowest rank that has its first
/// elements. One that is in parts is put together on the host; else it is the tensor itself.
/// All ranks call it together; `group` is null for one process.
std::map<std::string, Tensor> whole_tensors(const std::vector<StatePart>& parts, Group* group);

/// Writes whole tensors into the parts.
void put(const std::map<std::string, Tensor>& whole, const std::vector<StatePart>& parts);

}  // namespace sluice::parallel
