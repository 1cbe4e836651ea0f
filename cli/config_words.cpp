#include "cli/config_words.h"

#include <array>
#include <cctype>
#include <string_view>

namespace sluice::cli {

namespace {

struct Word {
  std::string_view field, key;
};

/// The only list of which key sets which field, and of which word stands for a value of C++.
constexpr auto kWords = std::to_array<Word>({
    {"PlanOptions::remat", "pipeline.remat"},
    {"PlanOptions::batch", "train.batch"},
    {"PlanOptions::micro_batches", "pipeline.micro_batches"},
    {"PlanOptions::replicas", "pipeline.replicas"},
    {"PlanOptions::fold_blocks", "pipeline.fold_blocks"},
    {"PlanOptions::replica_devices", "pipeline.replica_devices"},
    {"Plan::replica_devices", "pipeline.replica_devices"},
    {"Plan::replication", "pipeline.replicas"},
    {"PlanOptions::schedule", "pipeline.schedule"},
    {"ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
    {"PlanOptions::partition", "pipeline.partition"},
    {"PlanOptions::precision", "train.precision"},
    {"PlanOptions::memory", "pipeline.memory"},
    {"PlanOptions::search_seconds", "pipeline.search_seconds"},
    {"Plan::devices", "pipeline.devices"},
    {"Plan::partition", "pipeline.partition"},
    {"Plan::micro_batches", "pipeline.micro_batches"},
    {"Plan::schedule", "pipeline.schedule"},
    {"Plan::rematerialize", "pipeline.remat"},
    {"Plan::precision", "train.precision"},
    {"Device::Options::budget_bytes", "pipeline.memory"},
    {"LoopOptions::patience", "train.patience"},
    {"LoopOptions::evaluate_every", "train.evaluate_every"},
    {"kOpen", "auto"},
});

bool is_part_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; }

}  // namespace

std::string in_config_words(const std::string& message) {
  std::string text = message;
  for (const auto& [field, key] : kWords)
    for (size_t at = text.find(field); at != text.npos; at = text.find(field, at + 1)) {
      const size_t end = at + field.size();
      const bool begins = at == 0 || !is_part_of_a_name(text[at - 1]);
      const bool ends = end == text.size() || !is_part_of_a_name(text[end]) || text.substr(end, 2) == ": ";
      if (begins && ends) text.replace(at, field.size(), key);
    }
  return text;
}

}  // namespace sluice::cli
