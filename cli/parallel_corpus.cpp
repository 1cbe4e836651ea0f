#include "cli/parallel_corpus.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/choice_words.h"
#include "cli/data_cache.h"
#include "cli/list_text.h"
#include "core/error.h"
#include "data/parallel/locale_tree.h"
#include "data/parallel/pair_filter.h"
#include "data/parallel/synthetic_translation.h"
#include "data/parallel/text_pair_files.h"
#include "data/readable_path.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Those that texts of the source language are translated into.
std::vector<std::string> target_languages(const Settings& settings) {
  auto languages = settings.texts("data.languages");
  const std::string& source = settings.text("data.source_language");
  for (const std::string& language : languages) {
    require(language != source, "data.languages: needs languages that ", source, " (data.source_language) is translated into, got ", source,
            " itself; leave it out");
    require(std::ranges::count(languages, language) == 1, "data.languages: needs each language once, got ", language,
            " more often; leave the others out");
  }
  return languages;
}

std::string the_language(const Settings& settings, const fs::path& path) {
  const auto languages = target_languages(settings);
  require(languages.size() == 1, "data.languages: needs the one language that ", path.string(), " translates into, got ", languages.size());
  return languages[0];
}

std::vector<data::ParallelText> read_tree(const Settings& settings, const fs::path& path, std::string& summary) {
  require(settings.text("data.source_language") == "en", "data.source_language: catalogues of a folder of locales translate from en, got ",
          settings.text("data.source_language"));
  auto tree = data::read_locale_tree(path, {target_languages(settings), settings.texts("data.domains")});
  for (const auto& message : tree.skipped) summary += "left out " + message + "\n";
  return std::move(tree.texts);
}

/// A file of pairs. Where its name tells the languages as that of a file in a folder has to, it has the last word of which column is which.
std::vector<data::ParallelText> read_tsv(const Settings& settings, const fs::path& path) {
  const std::string& source = settings.text("data.source_language");
  const std::string target = the_language(settings, path);
  require(path.stem() != target + "-" + source, "data.path: ", path.string(), " is named as ", target, " translated into ", source,
          ", but data.source_language is ", source, "; set data.source_language = \"", target, "\" and data.languages = \"", source,
          "\", or rename the file where its first column is ", source);
  return {data::read_tsv_pairs(path, source, target)};
}

/// Files STEM.en and STEM.de for each language.
std::vector<data::ParallelText> read_moses(const Settings& settings, const fs::path& stem) {
  const std::string& source = settings.text("data.source_language");
  const auto languages = target_languages(settings);
  require(!languages.empty(), "data.languages: needs the languages of ", stem.string(), ".LANGUAGE, got none");
  require<DataError>(data::exists_readably(stem.string() + "." + source),
                     "data.path: needs a .tsv, .mo or .po file, a folder of locales, or ", stem.string(), ".", source, " with ",
                     stem.string(), ".", languages[0], " beside it; found none of these");
  std::vector<data::ParallelText> texts;
  for (const auto& language : languages) texts.push_back(data::read_moses_pairs(stem, source, language));
  return texts;
}

/// Of data.languages, where they are given, and the source language: files of two of them.
std::vector<data::ParallelText> read_tsv_folder(const Settings& settings, const fs::path& path) {
  auto texts = data::read_tsv_folder(path);
  std::vector<std::string> wanted = settings.texts("data.languages");
  if (wanted.empty()) return texts;
  const auto is_of = [](const data::ParallelText& text, const std::string& language) {
    return text.source_language == language || text.target_language == language;
  };
  const std::vector<std::string> languages = wanted;
  wanted.push_back(settings.text("data.source_language"));
  std::erase_if(texts, [&](const data::ParallelText& text) {
    return std::ranges::count(wanted, text.source_language) == 0 || std::ranges::count(wanted, text.target_language) == 0;
  });
  for (const std::string& language : languages)
    require<DataError>(std::ranges::any_of(texts, [&](const auto& text) { return is_of(text, language); }),
                       "data.languages: needs a file of ", language, " and another of ", list_text(wanted, ", "), " in ", path.string(),
                       ", found none; add it, or leave ", language, " out");
  return texts;
}

std::vector<data::ParallelText> read_texts(const Settings& settings, std::string& summary) {
  require(!settings.text("data.path").empty(),
          "data.path: needs a .tsv, .mo or .po file, the stem of a pair of files, or a folder of SOURCE-TARGET.tsv files or "
          "of locales such as /usr/share/locale, got none; set it, or data.kind = \"synthetic\"");
  const fs::path path = settings.text("data.path");
  const std::string& source = settings.text("data.source_language");
  if (data::is_folder_readably(path))
    return data::tsv_files_in(path).empty() ? read_tree(settings, path, summary) : read_tsv_folder(settings, path);
  if (data::ending_of(path) == ".tsv") return read_tsv(settings, path);
  if (path.extension() == ".mo" || path.extension() == ".po") return {data::read_catalogue(path, source, the_language(settings, path))};
  return read_moses(settings, path);
}

/// Copies may be left out of training, never of a test: a name that stays as it is counts there.
void filter(data::TranslationSplit& split, bool keep_copies, std::string& summary) {
  const auto all = [&](std::vector<data::ParallelText>& texts, bool with_copies, const char* name) {
    data::PairCounts counts;
    for (auto& text : texts) text = data::filter_pairs(std::move(text), {.keep_copies = with_copies}, counts);
    summary += fmt::format("{}: {}", name, counts.text());
  };
  all(split.train, keep_copies, "training");
  all(split.validation, true, "validation");
  if (split.overlapping > 0) summary += fmt::format("{} training pairs left out: a validation source is in them\n", split.overlapping);
}

/// The summary, which is shown where there is a corpus, says why no pair is left.
void require_training_pairs(const data::TranslationSplit& split, const std::string& path, std::string summary) {
  const auto has_pairs = [](const data::ParallelText& text) { return !text.pairs.empty(); };
  if (std::ranges::any_of(split.train, has_pairs)) return;
  if (summary.ends_with('\n')) summary.pop_back();
  for (size_t end; (end = summary.find('\n')) != summary.npos;) summary.replace(end, 1, "; ");
  throw DataError(join("data.path: needs pairs to train on, got none in ", path, " (", summary,
                       "); give others, or set data.keep_copies = true where targets that equal their sources are to be learnt"));
}

data::PairLengths longest_of(const Settings& settings) {
  return {settings.integer("model.source_context"), settings.integer("model.target_context")};
}

ParallelCorpus synthetic(const Settings& settings) {
  const data::PairLengths longest = longest_of(settings);
  constexpr int64_t kTagsAndEnd = 3;
  const int64_t letters = std::min(longest.source - kTagsAndEnd, longest.target - 1);
  require(letters >= 2, "model.source_context: synthetic sentences need at least 5 tokens, and model.target_context 3, got ",
          longest.source, " and ", longest.target);
  data::SyntheticTranslationOptions options;
  options.vocabulary = settings.integer("model.vocab");
  options.longest = letters;
  options.buckets = settings.integer("data.buckets");
  options.train_samples = settings.integer("data.train_samples");
  options.seed = static_cast<uint64_t>(settings.integer("train.seed"));
  return {{}, nullptr, data::synthetic_translation(options), ""};
}

bool has_tag(const data::MultilingualTokenizer& tokenizer, const std::string& language) {
  return std::ranges::binary_search(tokenizer.languages(), language);
}

std::shared_ptr<const data::MultilingualTokenizer> tokenizer_of(const Settings& settings, const std::string& serialized,
                                                                const data::TranslationSplit& texts) {
  const int64_t vocabulary = settings.integer("model.vocab");
  if (serialized.empty())
    return with_cache(settings, [&](const fs::path& cache) {
      return data::train_multilingual(vocabulary, texts.train, settings.number("data.temperature"), cache);
    });
  auto tokenizer = std::dynamic_pointer_cast<const data::MultilingualTokenizer>(data::load_tokenizer(serialized));
  require<DataError>(tokenizer != nullptr, "tokenizer: needs one of several languages, the checkpoint has another kind");
  require(tokenizer->vocabulary() == vocabulary, "model.vocab: needs ", tokenizer->vocabulary(), ", the vocabulary of the tokenizer, got ",
          vocabulary);
  for (const auto& text : texts.train)
    for (const std::string& language : {text.source_language, text.target_language})
      require(text.pairs.empty() || has_tag(*tokenizer, language), "data.languages: needs languages that the checkpoint's tokenizer has, ",
              list_text(tokenizer->languages(), ", "), ", got pairs of ", language, "; leave them out, or begin without the checkpoint");
  return tokenizer;
}

/// Of a language without a training pair nothing is learnt, and nothing held out can be scored.
void leave_out_untaught(std::vector<data::ParallelText>& texts, const data::MultilingualTokenizer& tokenizer, std::string& summary) {
  std::erase_if(texts, [&](const data::ParallelText& text) {
    const bool is_taught = has_tag(tokenizer, text.source_language) && has_tag(tokenizer, text.target_language);
    if (!is_taught && !text.pairs.empty())
      summary += fmt::format("left out {} validation pairs from {} to {}: there are no training pairs of one of the two\n",
                             text.pairs.size(), text.source_language, text.target_language);
    return !is_taught;
  });
}

}  // namespace

ParallelCorpus load_parallel_corpus(const Settings& settings, const std::string& serialized_tokenizer) {
  if (settings.text("data.kind") == "synthetic") return synthetic(settings);
  ParallelCorpus corpus;
  auto texts = read_texts(settings, corpus.summary);
  corpus.texts = data::split_by_source(std::move(texts), {.validation_fraction = settings.number("data.validation"),
                                                          .seed = static_cast<uint64_t>(settings.integer("train.seed")),
                                                          .directions = choice_at(settings, "data.directions", kDirectionWords)});
  filter(corpus.texts, settings.flag("data.keep_copies"), corpus.summary);
  require_training_pairs(corpus.texts, settings.text("data.path"), corpus.summary);
  corpus.tokenizer = tokenizer_of(settings, serialized_tokenizer, corpus.texts);
  leave_out_untaught(corpus.texts.validation, *corpus.tokenizer, corpus.summary);
  const data::TranslationOptions options{longest_of(settings), settings.integer("data.buckets")};
  corpus.dataset = std::make_shared<data::TranslationDataset>(data::tokenize_pairs(corpus.texts.train, *corpus.tokenizer),
                                                              data::tokenize_pairs(corpus.texts.validation, *corpus.tokenizer), options);
  const auto longer = [&](data::Split split) { return corpus.dataset->too_long(split); };
  corpus.summary += fmt::format("{} training and {} validation pairs in {} languages, {} and {} left out as longer than {} or {} tokens\n",
                                corpus.dataset->size(data::Split::train), corpus.dataset->size(data::Split::validation),
                                corpus.tokenizer->languages().size(), longer(data::Split::train), longer(data::Split::validation),
                                options.longest.source, options.longest.target);
  return corpus;
}

}  // namespace sluice::cli
