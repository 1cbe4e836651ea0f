#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace sluice::training {

/// Throws a UsageError unless there is a set, and each has a reference for every hypothesis.
inline void check_reference_sets(const char* subject, size_t hypotheses, std::span<const std::vector<std::string>> sets) {
  require(!sets.empty(), subject, ": needs at least one set of references, got none");
  for (const auto& set : sets)
    require(set.size() == hypotheses, subject, ": needs a reference for each of ", hypotheses, " hypotheses, got ", set.size());
}

/// The references of one hypothesis, one from each set.
inline std::vector<std::string> references_of(std::span<const std::vector<std::string>> sets, size_t hypothesis) {
  std::vector<std::string> references;
  for (const auto& set : sets) references.push_back(set[hypothesis]);
  return references;
}

}  // namespace sluice::training
