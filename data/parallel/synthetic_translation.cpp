#include "data/parallel/synthetic_translation.h"

#include "core/error.h"
#include "core/random.h"
#include "data/parallel/translation_split.h"
#include "data/permutation.h"

namespace sluice::data {

namespace {

constexpr int32_t kEnd = 1, kFirstLetter = 2;

void check_options(const SyntheticTranslationOptions& options) {
  const int64_t letters = options.vocabulary - kFirstLetter - options.languages - 1;
  require(options.languages >= 1 && letters >= 2, "synthetic: needs a language and a vocabulary of 2 letters beside ",
          options.vocabulary - letters, " other ids, got ", options.languages, " and ", options.vocabulary);
  require(options.shortest >= 1 && options.longest >= options.shortest, "synthetic: needs lengths 1 <= shortest <= longest, got ",
          options.shortest, " and ", options.longest);
  require(options.train_samples >= 1 && options.validation_samples >= 1, "synthetic: needs at least 1 sample in each split, got ",
          options.train_samples, " and ", options.validation_samples);
}

class SyntheticLanguages {
 public:
  explicit SyntheticLanguages(const SyntheticTranslationOptions& options)
      : options_(options),
        letters_(options.vocabulary - kFirstLetter - options.languages - 1),
        key_(random_key(options.seed, "translation")) {
    for (int64_t language = 0; language < options.languages; ++language)
      exchanges_.emplace_back(letters_, random_key(options.seed, join("letters of language ", language)));
  }

  std::vector<int32_t> sentence(int64_t number) const {
    const auto word = [&](uint32_t i) {
      return philox({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), i, 0},
                    {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)})[0];
    };
    const auto below = [](int64_t limit, uint32_t bits) {
      return static_cast<int64_t>(static_cast<uint64_t>(bits) * static_cast<uint64_t>(limit) >> 32);
    };
    std::vector<int32_t> ids(static_cast<size_t>(options_.shortest + below(options_.longest - options_.shortest + 1, word(0))));
    for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(kFirstLetter + below(letters_, word(i + 1)));
    return ids;
  }

  void add(TokenPairs& pairs, const std::vector<int32_t>& sentence) const {
    const int64_t language = pairs.size() % options_.languages;
    const auto tag = static_cast<int32_t>(options_.vocabulary - options_.languages);
    const auto target_tag = static_cast<int32_t>(tag + language);
    std::vector<int32_t> source{tag - 1, target_tag}, target{target_tag};
    source.insert(source.end(), sentence.begin(), sentence.end());
    source.push_back(kEnd);
    for (auto id = sentence.rbegin(); id != sentence.rend(); ++id)
      target.push_back(static_cast<int32_t>(kFirstLetter + exchanges_[static_cast<size_t>(language)][*id - kFirstLetter]));
    target.push_back(kEnd);
    pairs.add(source, target, language);
  }

 private:
  SyntheticTranslationOptions options_;
  int64_t letters_;
  uint64_t key_;
  std::vector<Permutation> exchanges_;
};

}  // namespace

std::shared_ptr<const TranslationDataset> synthetic_translation(const SyntheticTranslationOptions& options) {
  check_options(options);
  const SyntheticLanguages languages(options);
  TokenPairs train, validation;
  const int64_t samples = options.train_samples + options.validation_samples;
  for (int64_t number = 0; train.size() < options.train_samples || validation.size() < options.validation_samples; ++number) {
    require(number < 100 * samples + 1000, "synthetic: needs more sentences than there are of ", options.shortest, " to ", options.longest,
            " letters; set a larger vocabulary or longest");
    const auto sentence = languages.sentence(number);
    const std::string_view bytes(reinterpret_cast<const char*>(sentence.data()), sentence.size() * sizeof(int32_t));
    const bool is_validation = is_held_out(bytes, 0.5, options.seed);
    TokenPairs& pairs = is_validation ? validation : train;
    if (pairs.size() < (is_validation ? options.validation_samples : options.train_samples)) languages.add(pairs, sentence);
  }
  const PairLengths longest{options.longest + 3, options.longest + 1};
  return std::make_shared<TranslationDataset>(std::move(train), std::move(validation), TranslationOptions{longest, options.buckets});
}

}  // namespace sluice::data
