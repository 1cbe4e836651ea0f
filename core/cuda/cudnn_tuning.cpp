#include "core/cuda/cudnn_tuning.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>

#include "core/cuda/trial.h"

namespace sluice::cudnn {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Infinite for a plan that fails.
double seconds_of(const Candidate& candidate, Cuda& cuda, const Trial& trial) {
  try {
    return trial_seconds(cuda, [&] {
      trial.enqueue(candidate.plan);
      return true;
    });
  } catch (const CallError&) {
    return kNever;
  }
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
std::string deviation_of(const Candidate& candidate, Cuda& cuda, const Trial& trial, const std::vector<Agreement>& expected) {
  const auto run = [&] {
    for (const Result& result : trial.results) result.poison(cuda);
    trial.enqueue(candidate.plan);
  };
  run();
  if (std::string found = deviation_of(expected, cuda); !found.empty()) return found;
  const auto first = agreements(cuda, trial.results, true);
  run();
  const std::string found = deviation_of(first, cuda);
  return found.empty() ? found : "in a second run " + found;
}

}  // namespace

Tuned fastest_of(std::vector<Candidate> candidates, Cuda& cuda, const Trial& trial) {
  trial.own();
  const auto expected = agreements(cuda, trial.results, false);
  if (std::any_of(expected.begin(), expected.end(), [](const Agreement& result) { return result.is_void(); })) return {std::nullopt, false};
  const double own_seconds = trial.own_may_win ? trial_seconds(cuda, [&] { return trial.own(), true; }) : kNever;

  std::vector<double> seconds;
  for (const Candidate& candidate : candidates) seconds.push_back(seconds_of(candidate, cuda, trial));
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds[a] < seconds[b]; });
  for (const size_t index : order) {
    if (!(seconds[index] < own_seconds)) break;
    const std::string deviation = deviation_of(candidates[index], cuda, trial, expected);
    if (deviation.empty()) return {std::move(candidates[index]), true};
    warn(join("cuDNN's engine ", candidates[index].engine, " is left out, because it deviates: ", deviation, ", for ", trial.text));
  }
  return {};
}

void warn(const std::string& text) { std::fprintf(stderr, "sluice: warning: %s\n", text.c_str()); }

}  // namespace sluice::cudnn
