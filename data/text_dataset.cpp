#include "data/text_dataset.h"

#include <algorithm>

#include "core/random.h"

namespace sluice::data {

namespace {

constexpr int64_t kMostSections = 64;
constexpr int64_t kWindowsInSection = 16;  // of validation, where the text is long enough for more sections than one

}  // namespace

TextDataset::TextDataset(Tokens tokens, int64_t context, double validation_fraction, uint64_t seed)
    : LanguageDataset(tokens.vocabulary(), context), tokens_(std::move(tokens)), key_(random_key(seed, "text offsets")) {
  require(validation_fraction >= 0 && validation_fraction <= 0.5, "data: needs a validation fraction in [0, 0.5], got ",
          validation_fraction);
  const int64_t total = tokens_.size(), window = context + 1;
  const auto for_validation = static_cast<int64_t>(validation_fraction * static_cast<double>(total));
  const int64_t sections = std::clamp<int64_t>(for_validation / (kWindowsInSection * window), 1, kMostSections);
  for (int64_t section = 0; section < sections; ++section) {
    const int64_t begin = total * section / sections, end = total * (section + 1) / sections;
    const int64_t split = end - static_cast<int64_t>(validation_fraction * static_cast<double>(end - begin));
    // A range that holds a window has room for context - 1 offsets beside the last window, where it is long enough.
    add_range(train_, {begin, split}, split - begin < window ? 0 : std::max<int64_t>(1, (split - begin) / context - 1));
    add_range(validation_, {split, end}, std::max<int64_t>(0, end - split - 1) / context);
  }
  require<DataError>(size(Split::train) > 0, "data: ", total, " tokens of text are too few for one training window of ", window,
                     " tokens; set a smaller context or give more text");
  require<DataError>(validation_fraction == 0 || size(Split::validation) > 0, "data: the validation part of ", for_validation,
                     " tokens is too short for one window of ", window,
                     " tokens; set a smaller context, a larger fraction or give more text");
}

void TextDataset::add_range(Windows& windows, TokenRange range, int64_t count) const {
  if (count == 0) return;
  windows.ranges.push_back(range);
  windows.first_sample.push_back(windows.first_sample.back() + count);
}

int64_t TextDataset::size(Split split) const { return (split == Split::train ? train_ : validation_).first_sample.back(); }

int64_t TextDataset::offset(int64_t epoch, size_t range) const {
  const int64_t count = train_.first_sample[range + 1] - train_.first_sample[range];
  const int64_t length = train_.ranges[range].end - train_.ranges[range].begin;
  const int64_t choices = std::min(context(), length - count * context());
  const auto words = philox({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), static_cast<uint32_t>(range), 0},
                            {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  return static_cast<int64_t>(words[0]) * choices >> 32;
}

void TextDataset::read(Split split, int64_t epoch, int64_t sample, std::span<int32_t> ids) const {
  const Windows& windows = split == Split::train ? train_ : validation_;
  const auto above = std::upper_bound(windows.first_sample.begin(), windows.first_sample.end(), sample);
  const auto range = static_cast<size_t>(above - windows.first_sample.begin() - 1);
  int64_t begin = windows.ranges[range].begin + (sample - windows.first_sample[range]) * context();
  if (split == Split::train) begin += offset(epoch, range);
  tokens_.read(begin, ids);
}

}  // namespace sluice::data
