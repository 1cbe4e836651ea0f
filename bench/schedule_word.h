#pragma once
#include <string>
#include <vector>

#include "parallel/plan/choices.h"

namespace sluice::bench {

/// What options take: the named schedules and "auto".
inline std::vector<std::string> schedule_words() {
  std::vector<std::string> words;
  for (const auto schedule : parallel::kNamedSchedules) words.emplace_back(name_of(schedule));
  words.emplace_back("auto");
  return words;
}

/// A named schedule with as many virtual stages as serve it best, or with "auto" any order of work.
/// Errors  UsageError for another word.
inline parallel::ScheduleChoice schedule_of_word(const std::string& word) {
  if (word == "auto") return parallel::kOpen;
  return {parallel::schedule_named(word), parallel::kOpen};
}

}  // namespace sluice::bench
