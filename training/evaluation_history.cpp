#include "training/evaluation_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/suggestion.h"
#include "parallel/checkpoint/layout.h"

namespace sluice::training {

namespace {

using Json = nlohmann::json;

/// JSON has no number that is not finite: null stands for one.
double number_of(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

EvaluationHistory::Entry entry_of(const Json& json, const std::string& name) {
  const Json& step = json.at("step");
  require<DataError>(parallel::checkpoint_layout::is_step(step), name, ": needs a step from 0 to ", parallel::kMostSteps, ", got ",
                     step.dump(), "; use another checkpoint");
  EvaluationHistory::Entry entry{.step = step, .loss = number_of(json.at("loss")), .metrics = {}};
  for (const auto& [metric, value] : json.at("metrics").items()) entry.metrics[metric] = number_of(value);
  return entry;
}

}  // namespace

/// Less is better.
double EvaluationHistory::watched(const Entry& entry) const {
  if (watched_ == "loss") return entry.loss;
  const auto found = entry.metrics.find(watched_);
  return found == entry.metrics.end() ? std::nan("") : -found->second;
}

void EvaluationHistory::add(Entry entry) {
  std::vector<std::string> known{"loss"};
  for (const auto& [name, value] : entry.metrics) known.push_back(name);
  require(std::ranges::find(known, watched_) != known.end(), "evaluation: needs what decides which one is the best, '", watched_,
          "', among the metrics", suggestion(watched_, known));
  const auto place = std::ranges::lower_bound(entries_, entry.step, {}, &Entry::step);
  if (place != entries_.end() && place->step == entry.step)
    *place = std::move(entry);
  else
    entries_.insert(place, std::move(entry));
}

const EvaluationHistory::Entry* EvaluationHistory::best(int64_t every) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.step % every != 0) continue;
    if (const double value = watched(entry); std::isfinite(value) && (!best || value < watched(*best))) best = &entry;
  }
  return best;
}

int EvaluationHistory::since_best(int64_t every) const {
  const Entry* best = this->best(every);
  return static_cast<int>(
      std::ranges::count_if(entries_, [&](const Entry& entry) { return entry.step % every == 0 && (!best || entry.step > best->step); }));
}

std::string EvaluationHistory::text() const {
  Json json = Json::array();
  for (const Entry& entry : entries_) json.push_back({{"step", entry.step}, {"loss", entry.loss}, {"metrics", entry.metrics}});
  return json.dump() + "\n";
}

void EvaluationHistory::read(const std::string& text, const std::string& name) {
  try {
    for (const Json& entry : Json::parse(text)) {
      Entry read = entry_of(entry, name);
      // Of a training with other metrics: it says nothing of what is watched now.
      if (watched_ == "loss" || read.metrics.contains(watched_)) add(std::move(read));
    }
  } catch (const Json::exception& error) {
    throw DataError(join(name, ": needs the evaluations of a training as JSON: ", error.what(), "; use another checkpoint"));
  }
}

}  // namespace sluice::training
