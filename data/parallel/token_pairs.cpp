#include "data/parallel/token_pairs.h"

#include "core/error.h"

namespace sluice::data {

void TokenPairs::add(std::span<const int32_t> source, std::span<const int32_t> target, int64_t group) {
  require(!source.empty() && target.size() >= 2 && group >= 0, "token pairs: needs a source, a target of 2 ids and a group >= 0, got ",
          source.size(), ", ", target.size(), " and ", group);
  for (const auto& side : {source, target}) {
    ids_.insert(ids_.end(), side.begin(), side.end());
    begins_.push_back(static_cast<int64_t>(ids_.size()));
  }
  groups_.push_back(static_cast<int32_t>(group));
}

std::span<const int32_t> TokenPairs::between(int64_t side) const {
  const auto at = static_cast<size_t>(side);
  return std::span(ids_).subspan(static_cast<size_t>(begins_[at]), static_cast<size_t>(begins_[at + 1] - begins_[at]));
}

PairLengths TokenPairs::lengths(int64_t pair) const {
  return {static_cast<int64_t>(source(pair).size()), static_cast<int64_t>(target(pair).size()) - 1};
}

TokenPairs tokenize_pairs(std::span<const ParallelText> texts, const MultilingualTokenizer& tokenizer) {
  TokenPairs pairs;
  int64_t group = 0;
  for (const auto& text : texts) {
    for (const auto& pair : text.pairs)
      pairs.add(tokenizer.encode_source(text.source_language, text.target_language, pair.source),
                tokenizer.encode_target(text.target_language, pair.target), group);
    ++group;
  }
  return pairs;
}

}  // namespace sluice::data
