#include "cli/translation.h"

#include "cli/build.h"
#include "cli/trained_model.h"
#include "core/utf8.h"

namespace sluice::cli {

namespace {

/// The unknown piece, and the tags, which only begin a translation.
std::vector<int32_t> never_said(const data::MultilingualTokenizer& tokenizer) {
  std::vector<int32_t> never{0};
  for (const auto& language : tokenizer.languages()) never.push_back(tokenizer.language_id(language));
  return never;
}

}  // namespace

TextTranslator::TextTranslator(const parallel::Checkpoint& checkpoint, const Settings& settings, const TranslationSearch& search,
                               const std::vector<DevicePtr>& devices) {
  require(is_translation_model(settings), "translate: needs a model.name = \"translation\", the checkpoint has ",
          settings.text("model.name"), "; use generate with a language model");
  const std::string serialized = tokenizer_of(checkpoint);
  require(!serialized.empty(), "translate: needs a model trained on texts, this one was trained on ", settings.text("data.kind"), " data");
  tokenizer_ = std::dynamic_pointer_cast<const data::MultilingualTokenizer>(data::load_tokenizer(serialized));
  require<DataError>(tokenizer_ != nullptr, checkpoint.folder, ": needs a tokenizer of several languages, has another kind");
  const auto graph = build_graph(settings);
  translator_ = std::make_unique<training::Translator>(graph, parameters_of(checkpoint, graph, settings), devices,
                                                       training::TranslatorOptions{.vocabulary = tokenizer_->vocabulary(),
                                                                                   .sentences = search.sentences,
                                                                                   .groups = devices.size() > 1 ? 2 : 1,
                                                                                   .beams = search.beams,
                                                                                   .length_penalty = search.length_penalty,
                                                                                   .end_token = tokenizer_->end_of_sentence(),
                                                                                   .never = never_said(*tokenizer_),
                                                                                   .precision = precision_of(settings),
                                                                                   .timeout_seconds = settings.number("pipeline.timeout")});
}

training::Translator::Sentence TextTranslator::sentence(const std::string& text, const std::string& from, const std::string& to,
                                                        const std::string& place) const {
  const size_t invalid = first_invalid_utf8(text);
  require<DataError>(invalid == text.npos, place, ": needs UTF-8, byte ", invalid, " is none");
  training::Translator::Sentence sentence{tokenizer_->encode_source(from, to, text), tokenizer_->language_id(to)};
  const auto tokens = static_cast<int64_t>(sentence.source.size()), most = translator_->source_context();
  require<DataError>(tokens <= most, place, ": has ", tokens, " tokens, the model takes ", most, " (model.source_context); split it");
  return sentence;
}

void TextTranslator::translate(const std::vector<training::Translator::Sentence>& sentences,
                               const std::function<void(size_t number, const std::string& text)>& emit) {
  translator_->translate(sentences,
                         [&](size_t number, const training::Hypothesis& best) { emit(number, tokenizer_->decode(best.tokens)); });
}

}  // namespace sluice::cli
