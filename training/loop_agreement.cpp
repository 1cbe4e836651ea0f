#include "training/loop_agreement.h"

#include "core/file/hash.h"
#include "parallel/run/agreement.h"

namespace sluice::training {

namespace {

constexpr const char* kSamples = "samples with the hash";  // empty on a rank that cannot load all inputs

std::string names_of(const MetricMakers& metrics) {
  std::string names;
  for (const auto& [name, make] : metrics) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// Of its first mini-batch; a validation without samples has none.
std::string samples_of(const data::BatchSamplerPtr& sampler) {
  if (!sampler) return "none";
  if (sampler->batches_per_epoch() < 1) return "no batches";
  Hash hash;
  const std::vector<int64_t> samples = sampler->samples(0, 0);
  hash.add(samples.data(), samples.size() * sizeof(samples[0]));
  return join(sampler->batches_per_epoch(), " batches an epoch, the first of ", samples.size(), " samples with hash ", hash.text());
}

parallel::Terms terms_of(const LoopOptions& options, const data::Dataset& dataset, const std::string& data_hash, bool saves) {
  std::string inputs;
  for (const std::string& input : dataset.inputs()) inputs += (inputs.empty() ? "" : ", ") + input;
  const auto option = [](const char* name, const auto& value) { return std::pair(join("LoopOptions::", name), join(value)); };
  return {{"number of training samples", join(dataset.size(data::Split::train))},
          {"number of validation samples", join(dataset.size(data::Split::validation))},
          {"inputs of the data set", inputs},
          {kSamples, data_hash},
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

void require_equal_loops(parallel::Group& group, const LoopOptions& options, const data::Dataset& dataset, const std::string& data_hash,
                         bool saves) {
  parallel::compare_with_root(
      group, [&] { return terms_of(options, dataset, data_hash, saves); },
      [](const std::string& name, const std::string& own, const std::string& of_root) {
        const bool is_unknown = name == kSamples && (own.empty() || of_root.empty());
        require(is_unknown, "training loop: needs ", name, " as on the root, '", of_root, "', got '", own,
                "'; give the loops of all ranks equal data sets and options");
      });
}

}  // namespace sluice::training
