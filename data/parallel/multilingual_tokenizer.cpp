#include "data/parallel/multilingual_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "core/error.h"
#include "core/random.h"
#include "data/parallel/temperature.h"
#include "data/permutation.h"

namespace sluice::data {

namespace {

std::vector<std::string> checked(std::vector<std::string> languages) {
  require(!languages.empty(), "tokenizer: needs at least one language");
  std::sort(languages.begin(), languages.end());
  for (size_t i = 0; i < languages.size(); ++i) {
    const auto& language = languages[i];
    require(!language.empty() && language.find_first_of(" \t\r\n\f\v") == std::string::npos,
            "tokenizer: needs a language without spaces, got '", language, "'");
    require(i == 0 || languages[i - 1] != language, "tokenizer: needs every language once, got '", language, "' twice");
  }
  return languages;
}

constexpr double kMostSampledBytes = double{1 << 24};  // more text teaches little, and learning would take minutes

/// The distinct strings of each language, of both sides, in the order of the texts.
class LanguageLines {
 public:
  explicit LanguageLines(std::span<const ParallelText> texts) {
    for (const auto& text : texts)
      for (const auto& pair : text.pairs) {
        add(text.source_language, pair.source);
        add(text.target_language, pair.target);
      }
  }

  std::vector<std::string> languages() const {
    std::vector<std::string> names;
    for (const auto& [name, lines] : of_) names.push_back(name);
    return names;
  }

  /// A text for each language, with its share of as much text as there is, or of the most: lines in a shuffled order, again and again where it is small.
  std::vector<TextFile> sampled(double temperature) const {
    std::vector<double> sizes;
    double total = 0;
    for (const auto& [name, lines] : of_) {
      sizes.push_back(static_cast<double>(lines.bytes));
      total += sizes.back();
    }
    total = std::min(total, kMostSampledBytes);
    const auto shares = temperature_shares(sizes, temperature);
    std::vector<TextFile> texts;
    auto share = shares.begin();
    for (const auto& [name, lines] : of_) texts.push_back({name, sample(name, lines, *share++ * total)});
    return texts;
  }

 private:
  struct Lines {
    std::vector<std::string_view> lines;
    std::unordered_set<std::string_view> seen;
    size_t bytes = 0;
  };

  void add(const std::string& language, std::string_view line) {
    Lines& lines = of_[language];
    if (line.empty() || !lines.seen.insert(line).second) return;
    lines.lines.push_back(line);
    lines.bytes += line.size();
  }

  static std::string sample(const std::string& language, const Lines& lines, double bytes) {
    const auto count = static_cast<int64_t>(lines.lines.size());
    const Permutation order(count, random_key(0, "lines of " + language));
    std::string text;
    for (int64_t i = 0; count > 0 && static_cast<double>(text.size()) < bytes + static_cast<double>(i); ++i)
      text += std::string(lines.lines[static_cast<size_t>(order[i % count])]) + '\n';
    return text;
  }

  std::map<std::string, Lines> of_;
};

}  // namespace

MultilingualTokenizer::MultilingualTokenizer(SentencePieceTokenizer pieces, std::vector<std::string> languages)
    : pieces_(std::move(pieces)), languages_(checked(std::move(languages))) {
  require<DataError>(end_of_sentence() >= 0, "tokenizer ", pieces_.name(),
                     ": needs a piece for the end of a sentence; train it with one (eos_id)");
}

void MultilingualTokenizer::require_id(int32_t id) const {
  require(id >= 0 && id < vocabulary(), "tokenizer multilingual: needs token ids 0..", vocabulary() - 1, ", got ", id);
}

std::string MultilingualTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<int32_t> pieces;
  for (const int32_t id : ids) {
    require_id(id);
    if (id < pieces_.vocabulary() && id != end_of_sentence()) pieces.push_back(id);
  }
  return pieces_.decode(pieces);
}

std::string MultilingualTokenizer::piece(int32_t id) const {
  require_id(id);
  if (id < pieces_.vocabulary()) return pieces_.piece(id);
  return "<" + languages_[static_cast<size_t>(id - pieces_.vocabulary())] + ">";
}

int32_t MultilingualTokenizer::language_id(const std::string& language) const {
  const auto found = std::lower_bound(languages_.begin(), languages_.end(), language);
  if (found != languages_.end() && *found == language) return static_cast<int32_t>(pieces_.vocabulary() + (found - languages_.begin()));
  std::string known;
  for (const auto& name : languages_) known += " " + name;
  const std::string nearest = nearest_word(language, languages_);
  throw UsageError(
      join("tokenizer: knows no language '", language, "'; it has", known, nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

std::vector<int32_t> MultilingualTokenizer::encode_source(const std::string& source_language, const std::string& target_language,
                                                          std::string_view text) const {
  std::vector<int32_t> ids{language_id(source_language), language_id(target_language)};
  const auto pieces = encode(text);
  ids.insert(ids.end(), pieces.begin(), pieces.end());
  ids.push_back(end_of_sentence());
  return ids;
}

std::vector<int32_t> MultilingualTokenizer::encode_target(const std::string& language, std::string_view text) const {
  std::vector<int32_t> ids{language_id(language)};
  const auto pieces = encode(text);
  ids.insert(ids.end(), pieces.begin(), pieces.end());
  ids.push_back(end_of_sentence());
  return ids;
}

std::shared_ptr<const MultilingualTokenizer> train_multilingual(int64_t vocabulary, std::span<const ParallelText> texts, double temperature,
                                                                const std::filesystem::path& cache_folder) {
  const LanguageLines lines(texts);
  require<DataError>(!lines.languages().empty(), "tokenizer: needs pairs of sentences to learn from, got none; see the files of data.path");
  const auto languages = checked(lines.languages());
  const auto tags = static_cast<int64_t>(languages.size());
  const int64_t fewest = fewest_pieces(EndOfSentence::piece) + tags;
  require(vocabulary >= fewest, "tokenizer: needs a vocabulary (model.vocab) of at least ", fewest, " (256 bytes and the tags of ", tags,
          " languages come first), got ", vocabulary);
  TokenizerPtr pieces;
  try {
    pieces = cached_bpe(vocabulary - tags, lines.sampled(temperature), EndOfSentence::piece, cache_folder);
  } catch (const DataError& error) {
    throw DataError(join(error.what(), "; of the ", vocabulary, " asked for, ", tags, " are tags of languages"));
  }
  const auto model = std::dynamic_pointer_cast<const SentencePieceTokenizer>(pieces);
  require<DataError>(model != nullptr, "tokenizer: the cache ", cache_folder.string(), " holds another kind of tokenizer; remove it");
  return std::make_shared<MultilingualTokenizer>(*model, languages);
}

}  // namespace sluice::data
