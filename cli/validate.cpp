#include "cli/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "data/loader.h"
#include "data/ngram.h"

namespace sluice::cli {

namespace {

/// Nothing when it was stopped.
std::optional<parallel::EvaluationResult> evaluate_unless(const std::function<bool()>& stop, parallel::Trainer& trainer, const Batch& batch,
                                                          bool with_output) try {
  return trainer.evaluate(batch, with_output, stop);
} catch (const parallel::StoppedError&) {
  return std::nullopt;
}

}  // namespace

Validation validate(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings, const std::function<bool()>& stop) {
  Validation validation;
  if (!corpus.class_names.empty()) validation.classification.emplace(corpus.class_names);
  validation.of_pixels = corpus.labels == "mask";
  double loss = 0, weight = 0;
  std::vector<double> seconds;
  int64_t samples = 0;
  data::LoaderOptions loading;
  loading.threads = static_cast<int>(settings.integer("data.threads"));
  data::ValidationLoader loader(corpus.dataset, validation_sampler(corpus, settings), loading);
  for (int64_t number = 0; number < loader.size(); ++number) {
    validation.is_complete = !stop || !stop();
    if (!validation.is_complete) break;
    const Batch batch = loader.at(number);
    const auto began = std::chrono::steady_clock::now();
    const auto result = evaluate_unless(stop, trainer, batch, validation.classification.has_value());
    validation.is_complete = result.has_value();
    if (!result) break;
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    samples += batch.samples;
    loss += result->loss_sum;
    weight += result->weight;
    if (validation.classification) validation.classification->add(result->output, batch.load(corpus.labels, 0, batch.samples));
  }
  if (weight > 0) validation.loss = loss / weight;
  if (seconds.empty()) return validation;
  validation.samples_per_second = static_cast<double>(samples) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2));
  validation.latency_seconds = seconds[seconds.size() / 2];
  return validation;
}

std::string describe(const Validation& validation) {
  if (!validation.loss) return "no validation split";
  const std::string loss = fmt::format("loss {:.4f}", *validation.loss);
  if (!validation.classification) return fmt::format("{}, perplexity {:.2f}", loss, std::exp(*validation.loss));
  const Classification& classification = *validation.classification;
  const std::string accuracy = fmt::format("{}, accuracy {:.2f} % of {} {}", loss, classification.top(1) * 100, classification.samples(),
                                           validation.of_pixels ? "pixels" : "images");
  return validation.of_pixels ? fmt::format("{}, mean IoU {:.2f} %", accuracy, classification.mean_iou() * 100) : accuracy;
}

void require_text(const Corpus& corpus) { require(corpus.text != nullptr, "train.baseline: needs data.kind = \"text\"; set it to false"); }

std::optional<double> trigram_loss(const Corpus& corpus, const Settings& settings) {
  require_text(corpus);
  const data::Trigram trigram(corpus.text->tokens(), corpus.text->ranges(data::Split::train));
  const auto samples = data::validation_samples(*corpus.dataset, validation_limit(settings));
  return samples.empty() ? std::nullopt : std::optional(trigram.loss(*corpus.text, samples));
}

}  // namespace sluice::cli
