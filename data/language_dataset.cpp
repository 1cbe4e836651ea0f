#include "data/language_dataset.h"

#include <algorithm>
#include <limits>

namespace sluice::data {

LanguageDataset::LanguageDataset(int64_t vocabulary, int64_t context) : vocabulary_(vocabulary), context_(context) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // of positions and of ids
  require(context >= 1 && context <= kMost, "data: needs a context of 1 to ", kMost, " tokens, got ", context);
  require(vocabulary >= 1 && vocabulary <= kMost + 1, "data: needs a vocabulary of 1 to ", kMost + 1, ", got ", vocabulary);
}

Tensor LanguageDataset::load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const {
  require(input == "tokens" || input == "targets", "data: the model asks for input '", input, "'; text has tokens, targets");
  const int64_t shift = input == "targets" ? 1 : 0;
  const auto rows = static_cast<int64_t>(samples.size());
  const Tensor result = empty({rows, context_}, DType::i32);
  std::vector<int32_t> ids(static_cast<size_t>(context_ + 1));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample = samples[static_cast<size_t>(row)];
    require(sample >= 0 && sample < size(split), "data: needs a sample 0..", size(split) - 1, ", got ", sample);
    read(split, epoch, sample, ids);
    std::copy_n(ids.begin() + shift, context_, result.data<int32_t>() + row * context_);
  }
  return result;
}

}  // namespace sluice::data
