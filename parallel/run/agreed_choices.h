#pragma once
#include "core/cuda/tuned.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// Whether any rank says so. `group` is null for one process; all ranks call it together, as the next one.
bool any_rank(Group* group, bool mine);

/// The choices of all ranks; of a kind that several have chosen for, that of the least of them.
GpuChoices agreed_choices(Group* group, const GpuChoices& mine);

}  // namespace sluice::parallel
