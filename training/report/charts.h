#pragma once
#include <string>
#include <vector>

#include "training/report/training_record.h"

/// The drawings of a report, as SVG.
namespace sluice::training {

/// Training loss by step, validation losses as dots, baselines as dashed lines.
std::string loss_chart(const TrainingRecord& record);

/// Accuracy of the evaluations by step, in percent.
std::string accuracy_chart(const TrainingRecord& record);

/// For each device: predicted and measured peak bytes as bars, the budget as a line.
std::string memory_chart(const std::vector<TrainingRecord::Device>& devices);

}  // namespace sluice::training
