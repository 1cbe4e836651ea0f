#pragma once
#include <string>
#include <vector>

#include "training/report/training_record.h"

/// The drawings of a report, as SVG.
namespace sluice::training {

/// Training loss by step, validation losses as dots, baselines as dashed lines.
std::string loss_chart(const TrainingRecord& record);

/// A metric of the evaluations by step.
std::string metric_chart(const TrainingRecord& record, const std::string& name);

/// A value of a metric: "87.50 %" of a share, else "0.03125".
std::string metric_text(const TrainingRecord& record, const std::string& name, double value);

/// For each device: predicted and measured peak bytes as bars, the budget as a line.
std::string memory_chart(const std::vector<TrainingRecord::Device>& devices);

}  // namespace sluice::training
