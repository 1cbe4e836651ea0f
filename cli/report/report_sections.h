#pragma once
#include <vector>

#include "cli/run_record.h"
#include "training/report/report.h"

namespace sluice::cli {

/// What the program adds to the report of a training: what the model makes of held-out samples.
std::vector<training::ReportSection> report_sections(const RunRecord& record);

}  // namespace sluice::cli
