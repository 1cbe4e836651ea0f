#include "core/cuda/cudnn_tuning.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "core/cuda/trial.h"

namespace sluice::cudnn {

namespace {

/// Infinite for a plan that fails or cannot be made.
double seconds_of(const Plan* plan, Cuda& cuda, const Trial& trial) try {
  return trial_seconds(cuda, [&] {
    if (plan) trial.enqueue(*plan);
    return plan != nullptr;
  });
} catch (const CallError&) {
  return std::numeric_limits<double>::infinity();
}

std::string deviation_of(const std::vector<Agreement>& expected, Cuda& cuda) {
  for (const Agreement& result : expected)
    if (std::string found = result.deviation(cuda); !found.empty())
      return expected.size() == 1 ? found : join("result ", &result - expected.data() + 1, ", ", found);
  return "";
}

std::vector<Agreement> agreements(Cuda& cuda, std::vector<Result> results, bool to_the_bit) {
  std::vector<Agreement> all;
  for (Result& result : results) {
    if (to_the_bit) result.tolerance = 0;
    all.emplace_back(cuda, result);
  }
  return all;
}

/// What deviates from the own kernels' numbers, or in a second run from the first; empty where nothing does.
std::string deviation_of(const Plan& plan, Cuda& cuda, const Trial& trial, const std::vector<Agreement>& expected) {
  const auto run = [&] {
    for (const Result& result : trial.results) result.poison(cuda);
    trial.enqueue(plan);
  };
  run();
  if (std::string found = deviation_of(expected, cuda); !found.empty()) return found;
  const auto first = agreements(cuda, trial.results, true);
  run();
  const std::string found = deviation_of(first, cuda);
  return found.empty() ? found : "in a second run " + found;
}

bool is_right(const std::string& choice, const Plan& plan, Cuda& cuda, const Trial& trial, const std::vector<Agreement>& expected) {
  const std::string deviation = deviation_of(plan, cuda, trial, expected);
  if (!deviation.empty()) warn(join("cuDNN's ", choice, " is left out, because it deviates: ", deviation, ", for ", trial.text));
  return deviation.empty();
}

std::string choice_of(size_t place, const Proposal& proposal) { return join("proposal ", place, ", engine ", proposal.engine); }

}  // namespace

std::vector<std::string> Proposals::choices() {
  if (!graph_) {
    graph_ = graph_of(library_, slice_of(kind_));
    all_ = proposals(*graph_, gpu_, may_use_tensor_cores(kind_));
  }
  std::vector<std::string> choices;
  for (size_t place = 0; place < all_.size(); ++place) choices.push_back(choice_of(place, all_[place]));
  return choices;
}

const Plan* Proposals::plan(const std::string& choice) {
  const auto [entry, is_new] = plans_.try_emplace(choice);
  if (is_new) entry->second = make(choice);
  return entry->second ? &*entry->second : nullptr;
}

std::optional<Plan> Proposals::make(const std::string& choice) {
  const auto all = choices();
  const auto found = std::ranges::find(all, choice);
  if (found == all.end()) return std::nullopt;
  try {
    Plan plan(graph_, std::move(all_[static_cast<size_t>(found - all.begin())]), gpu_);
    return plan.workspace_bytes() <= workspace_bytes_for(kind_) ? std::optional(std::move(plan)) : std::nullopt;
  } catch (const CallError&) {
    return std::nullopt;
  }
}

std::optional<Plan> Proposals::take(const std::string& choice) { return plan(choice) ? std::move(plans_.at(choice)) : std::nullopt; }

std::vector<Candidate> candidates_of(Proposals& proposals, Cuda& cuda, const Trial& trial) {
  trial.own();
  const auto expected = std::make_shared<const std::vector<Agreement>>(agreements(cuda, trial.results, false));
  if (std::ranges::any_of(*expected, &Agreement::is_void)) return {};
  std::vector<Candidate> all;
  if (trial.own_may_win) all.push_back({kOwn, [&] { return trial_seconds(cuda, [&] { return trial.own(), true; }); }});
  for (const std::string& choice : proposals.choices())
    all.push_back(
        {choice, [&proposals, &cuda, &trial, choice] { return seconds_of(proposals.plan(choice), cuda, trial); },
         [&proposals, &cuda, &trial, choice, expected] { return is_right(choice, *proposals.plan(choice), cuda, trial, *expected); }});
  return all;
}

void warn(const std::string& text) { std::fprintf(stderr, "sluice: warning: %s\n", text.c_str()); }

}  // namespace sluice::cudnn
