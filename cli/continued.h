#pragma once
#include <string>
#include <vector>

#include "cli/config.h"

namespace sluice::cli {

/// A continued training gives the bits of an uninterrupted one only when nothing but the pipeline, the output and the end changed: what else
/// did, in words, a line each.
std::vector<std::string> changes_of_answer(const Settings& before, const Settings& now);

/// The settings that decide the bits of a training, as text, a line each.
std::vector<std::string> answer_lines(const Settings& settings);

}  // namespace sluice::cli
