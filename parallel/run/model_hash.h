#pragma once
#include <map>
#include <string>

#include "core/tensor.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// Errors  UsageError naming a weight on a meta device, which holds no values.
void require_values(const std::map<std::string, Tensor>& model);

/// XXH3-128 over the bytes of the tensors of all ranks, each of which gives its own, in the order of their names. `group` is null for one
/// process. All ranks call it together; the root holds a piece of a tensor of another rank at a time.
/// Errors  as require_values.
std::string hash_of_model(Group* group, const std::map<std::string, Tensor>& mine);

}  // namespace sluice::parallel
