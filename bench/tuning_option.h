#pragma once
#include <CLI/CLI.hpp>

#include "core/cuda/tuned.h"

namespace sluice::bench {

/// Adds --tune off|quick|full.
inline void add_tuning(CLI::App& app, Tuning& tuning) {
  const std::map<std::string, Tuning> words = {{"off", Tuning::off}, {"quick", Tuning::quick}, {"full", Tuning::full}};
  app.add_option("--tune", tuning, "algorithms that a GPU tries first: off, quick or full")->transform(CLI::CheckedTransformer(words));
}

}  // namespace sluice::bench
