#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/plan/plan.h"

namespace sluice::parallel {

/// A plan as bytes, for the ranks that do not plan: everything but its devices, which every rank makes on its own. A searched order
/// arrives as the user's own would, for this number of micro-batches alone and without the costs, but still named "auto": only the root
/// searches again. Equal plans have equal bytes.
/// Errors  UsageError for a plan that is wrong in itself (require_valid).
std::string encode(const Plan& plan);

/// The plan that was encoded, on as many devices as it was made for.
/// Errors  UsageError for other numbers of devices and for devices that no plan can have; DataError for bytes that are no plan, naming
///         the byte, or the field that cannot be right.
Plan decode_plan(std::string_view bytes, std::vector<DevicePtr> devices);

/// The plan that `make` gives on the root, on every rank on its own `devices`: those of the whole job. `group` is null for one process.
/// Errors  what `make` throws, on all ranks alike.
Plan planned_by_root(Group* group, std::vector<DevicePtr> devices, const std::function<Plan()>& make);

}  // namespace sluice::parallel
