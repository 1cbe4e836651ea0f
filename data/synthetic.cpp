#include "data/synthetic.h"

#include <cmath>

#include "core/distributions.h"
#include "core/random.h"

namespace sluice::data {

namespace {

constexpr int32_t kResidues = 8;

int32_t below(int64_t limit, uint32_t word) {
  return static_cast<int32_t>(static_cast<uint64_t>(word) * static_cast<uint64_t>(limit) >> 32);
}

}  // namespace

SyntheticText::SyntheticText(Options options)
    : LanguageDataset(options.vocabulary, options.context), options_(options), key_(random_key(options.seed, "synthetic text")) {
  require(options.noise >= 0 && options.noise <= 1, "synthetic: needs a noise in [0, 1], got ", options.noise);
  require(options.train_samples >= 1 && options.validation_samples >= 1, "synthetic: needs at least 1 sample in each split, got ",
          options.train_samples, " and ", options.validation_samples);
}

int64_t SyntheticText::size(Split split) const { return split == Split::train ? options_.train_samples : options_.validation_samples; }

double SyntheticText::entropy() const {
  const double others = options_.noise / static_cast<double>(vocabulary());
  const double follower = 1 - options_.noise + others;
  const auto nats = [](double p) { return p > 0 ? -p * std::log(p) : 0.0; };
  return nats(follower) + static_cast<double>(vocabulary() - 1) * nats(others);
}

void SyntheticText::read(Split split, int64_t, int64_t sample, std::span<int32_t> ids) const {
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)};
  const uint32_t of_split = split == Split::train ? 0 : 1, of_rules = 2;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto noise =
        philox({static_cast<uint32_t>(i), static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), of_split}, key);
    const bool follows = i >= 2 && uniform_from(noise[0]) >= options_.noise;
    if (follows) {
      const auto rule = static_cast<uint32_t>(ids[i - 2] % kResidues * kResidues + ids[i - 1] % kResidues);
      ids[i] = below(vocabulary(), philox({rule, 0, 0, of_rules}, key)[0]);
    } else {
      ids[i] = below(vocabulary(), noise[1]);
    }
  }
}

}  // namespace sluice::data
