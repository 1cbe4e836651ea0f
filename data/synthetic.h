#pragma once
#include "data/language_dataset.h"

namespace sluice::data {

/// Endless-looking text for tests and benchmarks, a function of the seed alone: a noisy Markov chain of order 2. With probability
/// 1 - noise the next token follows from the residues of the last two modulo 8 (64 rules, so a model of any vocabulary learns them soon);
/// else it is any token.
/// Errors  UsageError for sizes < 1 or a noise outside [0, 1].
class SyntheticText : public LanguageDataset {
 public:
  struct Options {
    int64_t vocabulary = 256;
    int64_t context = 64;
    uint64_t seed = 0;
    double noise = 0.1;
    int64_t train_samples = 65536;
    int64_t validation_samples = 256;
  };
  explicit SyntheticText(Options options);

  int64_t size(Split split) const override;
  /// The loss in nats a token of the best possible model, once it has seen two tokens.
  double entropy() const;

 private:
  void read(Split split, int64_t epoch, int64_t sample, std::span<int32_t> ids) const override;

  Options options_;
  uint64_t key_;
};

}  // namespace sluice::data
