#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/loader.h"
#include "parallel/trainer.h"
#include "training/metrics/metric.h"

namespace sluice::training {

/// What a model makes of a validation split.
struct Evaluation {
  std::optional<double> loss;             ///< mean over the weights of its targets; nothing where there are none
  std::map<std::string, double> metrics;  ///< by name; none where there is no loss
  bool is_complete = true;                ///< false when it was stopped: then the numbers are of a part of the split
  parallel::Wish wish;                    ///< of all ranks, in the last mini-batch that was run
  double latency_seconds = 0;             ///< of a mini-batch through the pipeline, forward only: the median
  double samples_per_second = 0;          ///< of all mini-batches, loading left out
};

/// Runs all batches of a loader through a trainer in evaluation mode, which changes nothing of it. With metrics the graph needs an output.
/// `stop` is asked between batches, and within them from any device's thread; over several ranks as Trainer::evaluate does, and a rank's
/// wish that has a signal stops it, too.
/// Threads  one caller; over several ranks all call it together, and get the same.
/// Errors   what the trainer, the loader and the metrics throw.
Evaluation evaluate(parallel::Trainer& trainer, data::ValidationLoader& batches,
                    const std::map<std::string, std::shared_ptr<Metric>>& metrics = {}, const std::function<bool()>& stop = {});

/// A loss as people read it: 2.3026 with four decimals. One that is no number is "nan", without the sign that it may have.
std::string number_text(double value, int decimals);

}  // namespace sluice::training
