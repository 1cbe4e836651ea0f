#pragma once
#include <string>

#include "autograd/var.h"

namespace sluice {

/// The ops that a value was made by, in their order: names, dtypes, which inputs they record, and what they save. Two runs of equal ops on
/// tensors of equal shapes have equal texts. With `attributes` their constants are in it, too (OpAttributes::write).
std::string recorded_ops(const NodePtr& root, bool attributes = false);

}  // namespace sluice
