#pragma once
#include "data/language_dataset.h"
#include "data/token_file.h"

namespace sluice::data {

/// Token positions begin .. end-1.
struct TokenRange {
  int64_t begin = 0, end = 0;
};

/// Windows of a text. The text is cut into up to 64 equal sections, and the last `validation_fraction` of each is for validation, so both
/// splits cover the whole text and share no token.
///
/// Training windows of an epoch tile each training range from an offset that is random in (seed, epoch), so an epoch sees almost every
/// token once and epochs see different windows. Validation windows never move.
/// Errors  UsageError for a fraction outside [0, 0.5]; DataError for a text too short for one window in each split.
class TextDataset : public LanguageDataset {
 public:
  TextDataset(Tokens tokens, int64_t context, double validation_fraction, uint64_t seed);

  const Tokens& tokens() const { return tokens_; }
  std::span<const TokenRange> ranges(Split split) const { return split == Split::train ? train_.ranges : validation_.ranges; }
  int64_t size(Split split) const override;

 private:
  struct Windows {
    std::vector<TokenRange> ranges;
    std::vector<int64_t> first_sample{0};  ///< of each range, then the number of samples
  };
  void add_range(Windows& windows, TokenRange range, int64_t count) const;
  void read(Split split, int64_t epoch, int64_t sample, std::span<int32_t> ids) const override;
  int64_t offset(int64_t epoch, size_t range) const;

  Tokens tokens_;
  uint64_t key_;
  Windows train_, validation_;
};

}  // namespace sluice::data
