#pragma once
#include <string>

#include "cli/run_record.h"

/// The drawings of a report, as SVG.
namespace sluice::cli {

/// Training loss by step, validation losses as dots, the trigram baseline as a dashed line.
std::string loss_chart(const RunRecord& record);

/// Validation accuracy by step, in percent.
std::string accuracy_chart(const RunRecord& record);

/// For each device: predicted and measured peak bytes as bars, the budget as a line.
std::string memory_chart(const std::vector<RunRecord::DeviceRecord>& devices);

}  // namespace sluice::cli
