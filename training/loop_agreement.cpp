#include "training/loop_agreement.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/file/hash.h"
#include "parallel/run/agreement.h"

namespace sluice::training {

namespace {

/// By name, in the order in which differences are named.
using Terms = std::vector<std::pair<std::string, std::string>>;

std::string names_of(const MetricMakers& metrics) {
  std::string names;
  for (const auto& [name, make] : metrics) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// Of its first mini-batch.
std::string samples_of(const data::BatchSamplerPtr& sampler) {
  if (!sampler) return "none";
  Hash hash;
  const std::vector<int64_t> samples = sampler->samples(0, 0);
  hash.add(samples.data(), samples.size() * sizeof(samples[0]));
  return join(sampler->batches_per_epoch(), " batches an epoch, the first of ", samples.size(), " samples with hash ", hash.text());
}

Terms terms_of(const LoopOptions& options, const data::Dataset& dataset, bool saves) {
  std::string inputs;
  for (const std::string& input : dataset.inputs()) inputs += (inputs.empty() ? "" : ", ") + input;
  const auto option = [](const char* name, const auto& value) { return std::pair(join("LoopOptions::", name), join(value)); };
  return {{"number of training samples", join(dataset.size(data::Split::train))},
          {"number of validation samples", join(dataset.size(data::Split::validation))},
          {"inputs of the data set", inputs},
          option("batch", options.batch),
          option("seed", options.seed),
          option("sampler", samples_of(options.sampler)),
          option("steps", options.steps),
          option("evaluate_every", options.evaluate_every),
          option("evaluate_samples", options.evaluate_samples),
          option("evaluate_sampler", samples_of(options.evaluate_sampler)),
          option("metrics", names_of(options.metrics)),
          option("watched", options.watched),
          option("patience", options.patience),
          {"folder of checkpoints", saves ? "there" : "missing"},
          option("save_every", options.save_every),
          option("keep_best", options.keep_best),
          option("record", options.record ? "there" : "missing")};
}

}  // namespace

void require_equal_loops(parallel::Group& group, const LoopOptions& options, const data::Dataset& dataset, bool saves) {
  Terms mine;
  parallel::together(&group, [&] { mine = terms_of(options, dataset, saves); });
  const auto root = nlohmann::json::parse(parallel::on_root(&group, [&] { return nlohmann::json(mine).dump(); })).get<Terms>();
  parallel::together(&group, [&] {
    for (size_t i = 0; i < mine.size(); ++i)
      require(mine[i] == root.at(i), "training loop: needs ", mine[i].first, " as on the root, '", root[i].second, "', got '",
              mine[i].second, "'; give the loops of all ranks equal data sets and options");
  });
}

}  // namespace sluice::training
