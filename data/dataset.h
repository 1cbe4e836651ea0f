#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace sluice::data {

enum class Split { train, validation };

/// Numbered samples, each with the same named inputs.
/// Threads  all functions: any. They are pure: equal arguments give equal bits.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::vector<std::string> inputs() const = 0;
  virtual int64_t size(Split split) const = 0;
  /// Samples of one bucket have inputs of equal shapes and may be loaded together.
  virtual int64_t bucket([[maybe_unused]] Split split, [[maybe_unused]] int64_t sample) const { return 0; }
  /// One input of the given samples as a host tensor [samples, ...]. `epoch` chooses among the views of a sample (crops, offsets); it
  /// matters for Split::train only.
  /// Errors  UsageError for an unknown input, a sample outside 0..size-1, and samples of several buckets.
  virtual Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const = 0;
};

}  // namespace sluice::data
