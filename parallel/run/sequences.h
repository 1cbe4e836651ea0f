#pragma once
#include <cstdint>
#include <vector>

namespace sluice::parallel {

/// Sequences that are made token by token, over many runs: what the stages' key/value caches hold, and what a run adds to them. Sequences
/// are in groups, one a micro-batch of a run, whose rows are of one length.
struct Sequences {
  int tokens_input = 0;            ///< the graph's input that a run has new tokens of. The others are loaded when a group begins, and kept
  int64_t capacity = 0;            ///< tokens that a cache holds
  std::vector<int> groups{};       ///< by micro-batch: its group's number
  std::vector<int64_t> lengths{};  ///< by micro-batch: tokens that its group has seen before; 0 begins one anew
  /// By micro-batch and row: the row whose sequence this one goes on with; empty: each its own. Both have the same other inputs.
  std::vector<std::vector<int32_t>> parents{};
};

/// What the bytes of such a run depend on.
struct SequencesShape {
  int tokens_input = 0;
  int64_t capacity = 0;
  int64_t length = 0;       ///< of every group, before the run
  int groups = 0;           ///< that the devices hold, those of the run among them
  bool moves_rows = false;  ///< the run has parents
  bool operator==(const SequencesShape&) const = default;
};

}  // namespace sluice::parallel
