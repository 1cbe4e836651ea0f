#include "data/parallel/translation_split.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "core/error.h"
#include "core/random.h"

namespace sluice::data {

namespace {

ParallelText reversed(const ParallelText& text) {
  ParallelText result{text.target_language, text.source_language, {}};
  result.pairs.reserve(text.pairs.size());
  for (const auto& pair : text.pairs) result.pairs.push_back({pair.target, pair.source});
  return result;
}

/// Adds the pairs to those of their direction.
void add_to(std::vector<ParallelText>& texts, ParallelText text) {
  const auto same = std::ranges::find_if(texts, [&](const ParallelText& other) {
    return other.source_language == text.source_language && other.target_language == text.target_language;
  });
  if (same == texts.end())
    texts.push_back(std::move(text));
  else
    std::ranges::move(text.pairs, std::back_inserter(same->pairs));
}

std::vector<ParallelText> directed(std::vector<ParallelText> texts, Directions directions) {
  std::vector<ParallelText> result;
  for (auto& text : texts) {
    if (directions != Directions::forward) add_to(result, reversed(text));
    if (directions != Directions::backward) add_to(result, std::move(text));
  }
  return result;
}

}  // namespace

bool is_held_out(std::string_view source, double fraction, uint64_t seed) {
  return static_cast<double>(random_key(seed, source) >> 11) * 0x1p-53 < fraction;
}

TranslationSplit split_by_source(std::vector<ParallelText> texts, const TranslationSplitOptions& options) {
  const double fraction = options.validation_fraction;
  require(fraction >= 0 && fraction <= 0.5, "data: needs a validation fraction in [0, 0.5], got ", fraction);
  TranslationSplit split;
  for (auto& text : texts) {
    ParallelText train{text.source_language, text.target_language, {}}, validation = train;
    for (auto& pair : text.pairs) (is_held_out(pair.source, fraction, options.seed) ? validation : train).pairs.push_back(std::move(pair));
    text.pairs.clear();
    split.train.push_back(std::move(train));
    split.validation.push_back(std::move(validation));
  }
  split.validation = directed(std::move(split.validation), options.directions);
  std::unordered_set<std::string_view> sources;
  for (const auto& text : split.validation)
    for (const auto& pair : text.pairs) sources.insert(pair.source);
  for (auto& text : split.train)
    split.overlapping += static_cast<int64_t>(
        std::erase_if(text.pairs, [&](const auto& pair) { return sources.contains(pair.source) || sources.contains(pair.target); }));
  split.train = directed(std::move(split.train), options.directions);
  return split;
}

}  // namespace sluice::data
