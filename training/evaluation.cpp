#include "training/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/steady_clock.h"
#include "core/where.h"

namespace sluice::training {

namespace {

/// Nothing when it was stopped.
std::optional<parallel::EvaluationResult> evaluate_unless(const std::function<bool()>& stop, parallel::Trainer& trainer, const Batch& batch,
                                                          bool with_output) try {
  return trainer.evaluate(batch, with_output, stop);
} catch (const parallel::StoppedError&) {
  return std::nullopt;
}

/// What an error of the data says of an input that the model does not have is of a metric that reads it.
void add(Metric& metric, const std::string& name, const Tensor& output, const Batch& batch) try {
  metric.add(output, batch);
} catch (const Error&) {
  rethrow_at(join(" (metric '", name, "')"));
}

void note_times(std::vector<double> seconds, int64_t samples, Evaluation& evaluation) {
  if (seconds.empty()) return;
  evaluation.samples_per_second = static_cast<double>(samples) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2));
  evaluation.latency_seconds = seconds[seconds.size() / 2];
}

}  // namespace

Evaluation evaluate(parallel::Trainer& trainer, data::ValidationLoader& batches,
                    const std::map<std::string, std::shared_ptr<Metric>>& metrics, const std::function<bool()>& stop) {
  for (const auto& [name, metric] : metrics)
    require(metric != nullptr, "evaluate: metric '", name,
            "' needs an object, got a null pointer; its maker returns std::make_shared<...>()");
  Evaluation evaluation;
  double loss = 0, weight = 0;
  std::vector<double> seconds;
  int64_t samples = 0;
  for (int64_t number = 0; number < batches.size(); ++number) {
    evaluation.is_complete = trainer.group() || !stop || !stop();  // ranks agree on it in Trainer::evaluate
    if (!evaluation.is_complete) break;
    const Batch batch = batches.at(number);
    const double began = steady_seconds();
    const auto result = evaluate_unless(stop, trainer, batch, !metrics.empty());
    evaluation.is_complete = result.has_value();
    if (!result) break;
    seconds.push_back(steady_seconds() - began);
    samples += batch.samples;
    loss += result->loss_sum;
    weight += result->weight;
    for (const auto& [name, metric] : metrics) add(*metric, name, result->output, batch);
    evaluation.wish = result->wish;
    evaluation.is_complete = !trainer.group() || !stop || evaluation.wish.signal == 0;
    if (!evaluation.is_complete) break;
  }
  if (weight > 0) {
    evaluation.loss = loss / weight;
    for (const auto& [name, metric] : metrics) evaluation.metrics[name] = metric->value();
  }
  note_times(std::move(seconds), samples, evaluation);
  return evaluation;
}

std::string number_text(double value, int decimals) { return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, decimals); }

}  // namespace sluice::training
