#pragma once
#include <array>
#include <string>

#include "parallel/plan/choices.h"

namespace sluice::bench {

/// What options take.
inline constexpr std::array kScheduleWords{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "auto"};

/// A named schedule with as many virtual stages as serve it best, or with "auto" any order of work.
/// Errors  UsageError for another word.
inline parallel::ScheduleChoice schedule_of_word(const std::string& word) {
  if (word == "auto") return parallel::kOpen;
  return {parallel::schedule_named(word), parallel::kOpen};
}

}  // namespace sluice::bench
