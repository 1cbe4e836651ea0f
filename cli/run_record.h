#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/images.h"
#include "parallel/plan.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// What a training run showed, for its JSON and its report.
struct RunRecord {
  struct Step {
    int64_t number = 0;  ///< from 1
    parallel::StepResult result;
  };
  struct Validation {
    int64_t step = 0;
    double loss = 0;
    std::optional<double> accuracy = {};  ///< of images: from 0 to 1
  };
  struct DeviceRecord {
    std::string name;
    int64_t predicted_peak_bytes = 0, peak_bytes = 0, budget_bytes = 0;
  };

  std::string config;  ///< as TOML
  int64_t parameters = 0;
  std::string item = "token";  ///< what speed counts: "token" or "sample"
  int64_t items_per_step = 0;
  int64_t steps_done = 0;     ///< in all, also before a resume
  std::vector<Step> steps;    ///< of this run, without the skipped ones
  int64_t skipped_steps = 0;  ///< of this run: their gradients were not finite
  std::vector<Validation> validations;
  std::optional<double> trigram_loss;
  std::string weights_hash;
  std::string sample;               ///< of generated text
  std::vector<JudgedImage> images;  ///< of the validation split
  parallel::Prediction prediction;
  std::vector<DeviceRecord> devices;
  parallel::Trace trace;                             ///< of the last step
  std::optional<parallel::GraphChoice> cuda_graphs;  ///< where there are CUDA devices
};

/// The middle of the values of the steps, without the first step, which warms up; 0 when there is none.
double median_of_steps(const RunRecord& record, double parallel::StepResult::*value);

/// Of the last validation, for images.
std::optional<double> last_accuracy(const RunRecord& record);

/// Bytes of a budget, or nothing when it is unlimited.
std::optional<int64_t> limited(int64_t budget_bytes);

}  // namespace sluice::cli
