#include "cli/translation_scores.h"

#include <fmt/core.h>

#include <algorithm>

#include "training/metrics/bleu.h"
#include "training/metrics/chrf.h"
#include "training/metrics/nearest_neighbour.h"

namespace sluice::cli {

namespace {

constexpr size_t kExamples = 10;

/// Held-out pairs of one direction that the model can take, evenly spread.
std::vector<data::TextPair> test_pairs(const TextTranslator& model, const data::ParallelText& text, int64_t most) {
  std::vector<data::TextPair> fitting;
  for (const auto& pair : text.pairs) {
    const auto tokens = model.tokenizer().encode_source(text.source_language, text.target_language, pair.source).size();
    if (static_cast<int64_t>(tokens) <= model.translator().source_context()) fitting.push_back(pair);
  }
  const size_t count = most > 0 ? std::min(static_cast<size_t>(most), fitting.size()) : fitting.size();
  std::vector<data::TextPair> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(fitting[i * fitting.size() / count]);
  return chosen;
}

std::vector<std::string> sides(const std::vector<data::TextPair>& pairs, std::string data::TextPair::*side) {
  std::vector<std::string> texts;
  for (const auto& pair : pairs) texts.push_back(pair.*side);
  return texts;
}

/// What was taught of the direction of `text`: there are fewer directions to score than to teach, in an order of their own.
std::vector<data::TextPair> taught_pairs(const data::TranslationSplit& texts, const data::ParallelText& text) {
  const auto found = std::ranges::find_if(texts.train, [&](const data::ParallelText& taught) {
    return taught.source_language == text.source_language && taught.target_language == text.target_language;
  });
  return found == texts.train.end() ? std::vector<data::TextPair>() : found->pairs;
}

std::vector<std::string> neighbours(const std::vector<data::TextPair>& taught, const std::vector<std::string>& sources) {
  std::vector<std::string> targets;
  if (taught.empty()) return std::vector<std::string>(sources.size());
  const training::NearestNeighbour nearest(sides(taught, &data::TextPair::source), sides(taught, &data::TextPair::target));
  for (const auto& source : sources) targets.push_back(nearest.translate(source));
  return targets;
}

}  // namespace

TranslationScores score_translations(const parallel::Checkpoint& checkpoint, const ParallelCorpus& corpus, const Settings& settings,
                                     const std::vector<DevicePtr>& devices) {
  TextTranslator model(checkpoint, settings, {}, devices);
  TranslationScores scores;
  for (const data::ParallelText& text : corpus.texts.validation) {
    const auto pairs = test_pairs(model, text, settings.integer("data.test_pairs"));
    if (pairs.empty()) continue;
    const auto sources = sides(pairs, &data::TextPair::source), references = sides(pairs, &data::TextPair::target);
    std::vector<training::Translator::Sentence> sentences;
    for (const auto& source : sources)
      sentences.push_back(model.sentence(source, text.source_language, text.target_language, "validation pair"));
    std::vector<std::string> translations(sources.size());
    model.translate(sentences, [&](size_t number, const std::string& translation) { translations[number] = translation; });
    scores.directions.push_back({text.source_language, text.target_language, static_cast<int64_t>(pairs.size()),
                                 training::corpus_bleu(translations, references).score,
                                 training::corpus_chrf(translations, references).score, training::corpus_chrf(sources, references).score,
                                 training::corpus_chrf(neighbours(taught_pairs(corpus.texts, text), sources), references).score});
    const size_t example = pairs.size() / 2;
    scores.examples.push_back({text.source_language, text.target_language, sources[example], references[example], translations[example]});
  }
  std::vector<TranslatedPair> spread;
  const size_t shown = std::min(kExamples, scores.examples.size());
  for (size_t i = 0; i < shown; ++i) spread.push_back(scores.examples[i * scores.examples.size() / shown]);
  scores.examples = std::move(spread);
  return scores;
}

DirectionScores TranslationScores::mean() const {
  DirectionScores mean;
  for (const auto& direction : directions) {
    mean.pairs += direction.pairs;
    for (const auto score : {&DirectionScores::bleu, &DirectionScores::chrf, &DirectionScores::copy_chrf, &DirectionScores::neighbour_chrf})
      mean.*score += direction.*score / static_cast<double>(directions.size());
  }
  return mean;
}

int64_t TranslationScores::above_both() const { return std::ranges::count_if(directions, &DirectionScores::is_above_both); }

std::vector<std::vector<std::string>> TranslationScores::rows() const {
  const auto row = [](const std::string& name, const DirectionScores& scores) {
    std::vector<std::string> cells{name, std::to_string(scores.pairs)};
    for (const double score : {scores.bleu, scores.chrf, scores.copy_chrf, scores.neighbour_chrf})
      cells.push_back(fmt::format("{:.2f}", score));
    return cells;
  };
  std::vector<std::vector<std::string>> rows{{"direction", "pairs", "BLEU", "chrF", "copy", "neighbour"}};
  for (const auto& direction : directions) rows.push_back(row(direction.from + " - " + direction.to, direction));
  if (!directions.empty()) rows.push_back(row("mean", mean()));
  return rows;
}

std::string TranslationScores::notes() const {
  std::string text = fmt::format("chrF above copy and nearest neighbour in {} of {} directions\n", above_both(), directions.size());
  for (const auto& example : examples)
    text += fmt::format("{} - {}: {}\n  translation: {}\n  reference:   {}\n", example.from, example.to, example.source,
                        example.translation, example.reference);
  return text + fmt::format("BLEU {}\nchrF {}\n", training::corpus_bleu_signature(), training::chrf_signature());
}

std::string TranslationScores::table() const {
  std::string text;
  for (const auto& cells : rows())
    text += fmt::format("{:<16} {:>6} {:>7} {:>7} {:>7} {:>10}\n", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]);
  return text + notes();
}

}  // namespace sluice::cli
