#pragma once
#include <string>

#include "cli/run_record.h"

namespace sluice::cli {

/// One self-contained HTML page: loss curve, pipeline timeline of the last step, memory by device, what the model makes of
/// held-out samples, config.
std::string html_report(const RunRecord& record);

}  // namespace sluice::cli
