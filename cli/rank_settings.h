#pragma once
#include "cli/arguments.h"
#include "cli/config.h"
#include "cli/job.h"

namespace sluice::cli {

/// The settings of a training, which all ranks of the job read and are to read alike: ranks that want other things would come to other
/// places, and wait there for each other. Sets the job's watchdog.
/// Errors  of the config and the model what the root says, on all ranks; UsageError naming the key or flag in which a rank differs from it.
Settings settings_of_ranks(const Arguments& arguments, const Job& job);

}  // namespace sluice::cli
