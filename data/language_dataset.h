#pragma once
#include "data/dataset.h"

namespace sluice::data {

/// Samples of a language model: runs of T + 1 token ids, seen as "tokens" i32 [T] and "targets" i32 [T], the token that comes next.
class LanguageDataset : public Dataset {
 public:
  /// Errors  UsageError for a context that is not from 1 to 2^31 - 1, and a vocabulary that is not from 1 to 2^31.
  LanguageDataset(int64_t vocabulary, int64_t context);

  int64_t vocabulary() const { return vocabulary_; }
  int64_t context() const { return context_; }
  std::vector<std::string> inputs() const override { return {"tokens", "targets"}; }
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

 private:
  /// Writes the T + 1 ids of a sample.
  virtual void read(Split split, int64_t epoch, int64_t sample, std::span<int32_t> ids) const = 0;

  int64_t vocabulary_, context_;
};

}  // namespace sluice::data
