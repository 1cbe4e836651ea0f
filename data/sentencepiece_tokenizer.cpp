#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <map>
#include <regex>

#include "core/error.h"
#include "core/utf8.h"

namespace sluice::data {

namespace {

constexpr size_t kLongestChunk = 4096;              // bytes; what one call of SentencePiece gets
constexpr size_t kTrainingBytes = size_t{1} << 26;  // more text than this is sampled
constexpr int64_t kFewestPieces = 256 + 1 + 1;      // bytes, "unknown", and something to learn

/// The start of `text` that is encoded at once: up to and with the first LF; of a longer line, up to a space near the limit.
std::string_view next_chunk(std::string_view text) {
  const size_t line_end = text.substr(0, kLongestChunk).find('\n');
  if (line_end != std::string_view::npos) return text.substr(0, line_end + 1);
  if (text.size() <= kLongestChunk) return text;
  const size_t space = text.rfind(' ', kLongestChunk);
  if (space != std::string_view::npos && space > 0) return text.substr(0, space);
  const size_t start = character_start(text, kLongestChunk);
  return text.substr(0, start > 0 ? start : kLongestChunk);  // of bytes that no character begins with
}

/// Reads one protobuf varint from the front of `bytes`. False when it is cut.
bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/// Whether the top level of a model has pieces, trainer and normalizer settings (fields 1, 2, 3), none of them cut. SentencePiece
/// itself accepts a model that was cut between two pieces.
bool is_whole_model(std::string_view model) {
  constexpr uint64_t kLengthDelimited = 2;
  bool found[4] = {};
  while (!model.empty()) {
    uint64_t tag, size;
    if (!take_varint(model, tag) || (tag & 7) != kLengthDelimited || !take_varint(model, size) || size > model.size()) return false;
    if (tag >> 3 < 4) found[tag >> 3] = true;
    model.remove_prefix(size);
  }
  return found[1] && found[2] && found[3];
}

/// Every line of the texts, or of longer texts an even sample, in pieces that the trainer takes.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<TextFile>& texts) {
    size_t bytes = 0;
    for (const auto& text : texts) bytes += text.text.size();
    const size_t stride = bytes / kTrainingBytes + 1;
    size_t index = 0;
    for (const auto& text : texts) {
      std::string_view rest = text.text;
      while (!rest.empty()) {
        const std::string_view chunk = next_chunk(rest);
        rest.remove_prefix(chunk.size());
        const std::string_view line = chunk.substr(0, chunk.find_last_not_of('\n') + 1);
        if (!line.empty() && index++ % stride == 0) lines_.push_back(line);
      }
    }
    load();
  }
  bool done() const override { return at_ >= lines_.size(); }
  void Next() override {
    ++at_;
    load();
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void load() {
    if (!done()) value_ = lines_[at_];
  }
  std::vector<std::string_view> lines_;
  size_t at_ = 0;
  std::string value_;
};

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string name, std::string_view model) : name_(std::move(name)) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  require<DataError>(is_whole_model(model), "tokenizer ", name_, ": is not a whole SentencePiece model; fetch or train it again");
  const auto status = processor->LoadFromSerializedProto({model.data(), model.size()});
  require<DataError>(status.ok(), "tokenizer ", name_, ": is a damaged SentencePiece model (", status.message(),
                     "); fetch or train it again");
  processor_ = std::move(processor);
}

int64_t SentencePieceTokenizer::vocabulary() const { return processor_->GetPieceSize(); }

std::vector<int32_t> SentencePieceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  std::vector<int> chunk_ids;
  while (!text.empty()) {
    const std::string_view chunk = next_chunk(text);
    text.remove_prefix(chunk.size());
    const auto status = processor_->Encode({chunk.data(), chunk.size()}, &chunk_ids);
    require<DataError>(status.ok(), "tokenizer ", name_, ": cannot encode: ", status.ToString());
    ids.insert(ids.end(), chunk_ids.begin(), chunk_ids.end());
  }
  return ids;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids) const {
  for (const int32_t id : ids)
    require(id >= 0 && id < vocabulary(), "tokenizer ", name_, ": needs token ids 0..", vocabulary() - 1, ", got ", id);
  std::string text;
  const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  require<DataError>(status.ok(), "tokenizer ", name_, ": cannot decode: ", status.ToString());
  return text;
}

std::string SentencePieceTokenizer::piece(int32_t id) const {
  require(id >= 0 && id < vocabulary(), "tokenizer ", name_, ": needs token ids 0..", vocabulary() - 1, ", got ", id);
  return processor_->IdToPiece(id);
}

int32_t SentencePieceTokenizer::end_of_sentence() const { return processor_->eos_id(); }

std::string SentencePieceTokenizer::model() const { return processor_->serialized_model_proto(); }

namespace {

/// Identity normalisation, no dummy prefix and byte fallback make the tokenizer reversible; one thread makes it reproducible.
std::map<std::string, std::string> settings_of(int64_t vocabulary, EndOfSentence end) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"add_dummy_prefix", "false"},
          {"character_coverage", "0.9995"},
          {"max_sentence_length", std::to_string(2 * kLongestChunk)},
          {"unk_id", "0"},
          {"bos_id", "-1"},
          {"eos_id", end == EndOfSentence::piece ? "1" : "-1"},
          {"pad_id", "-1"},
          {"num_threads", "1"},
          {"minloglevel", "4"}};
}

}  // namespace

std::string bpe_settings(int64_t vocabulary, EndOfSentence end) {
  std::string text = join("training_bytes=", kTrainingBytes);
  for (const auto& [name, value] : settings_of(vocabulary, end)) text += " " + name + "=" + value;
  return text;
}

namespace {

/// SentencePiece's refusal of a size, in our words: "smaller than required_chars. 258 vs 268", "too high (400). ... a value <= 342".
[[noreturn]] void refuse_vocabulary(int64_t vocabulary, const std::string& reason) {
  std::smatch found;
  const bool is_small = std::regex_search(reason, found, std::regex("required_chars\\. *[0-9]+ vs ([0-9]+)"));
  if (is_small || std::regex_search(reason, found, std::regex("<= ([0-9]+)")))
    throw DataError(join("tokenizer bpe: needs a vocabulary of ", is_small ? "at least " : "at most ", found[1].str(),
                         " for this corpus, got ", vocabulary, "; change it (model.vocab)", is_small ? "" : ", or give more text"));
  throw DataError(join("tokenizer bpe: cannot learn ", vocabulary, " pieces from this corpus: ", reason,
                       "; change the vocabulary (model.vocab) or give more text"));
}

}  // namespace

int64_t fewest_pieces(EndOfSentence end) { return kFewestPieces + (end == EndOfSentence::piece ? 1 : 0); }

TokenizerPtr train_bpe(int64_t vocabulary, const std::vector<TextFile>& texts, EndOfSentence end) {
  require(vocabulary >= fewest_pieces(end), "tokenizer bpe: needs a vocabulary (model.vocab) of at least ", fewest_pieces(end),
          " (256 bytes come first), got ", vocabulary);
  Lines lines(texts);
  const auto settings = settings_of(vocabulary, end);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train({settings.begin(), settings.end()}, &lines, &model);
  if (!status.ok()) refuse_vocabulary(vocabulary, status.message());
  return std::make_shared<SentencePieceTokenizer>("bpe", model);
}

}  // namespace sluice::data
