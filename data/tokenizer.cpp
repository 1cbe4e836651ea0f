#include "data/tokenizer.h"

#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/file/file.h"
#include "data/content_hash.h"
#include "data/parallel/multilingual_tokenizer.h"
#include "data/sealed.h"
#include "data/sentencepiece_tokenizer.h"

namespace sluice::data {

namespace fs = std::filesystem;

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids(text.size());
  for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<uint8_t>(text[i]);
  return ids;
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    require(id >= 0 && id < 256, "bytes: needs token ids 0..255, got ", id);
    text.push_back(static_cast<char>(id));
  }
  return text;
}

namespace {

// Of the serialized form, see sealed().
constexpr std::string_view kBytes = "sluice-tokenizer bytes\n", kSentencePiece = "sluice-tokenizer sentencepiece\n";
constexpr std::string_view kMultilingual = "sluice-tokenizer multilingual\n";

std::string_view payload_of(std::string_view kind, std::string_view bytes) {
  const auto payload = unsealed(kind, bytes);
  require<DataError>(payload.has_value(), "tokenizer: its bytes are damaged (checksum); use an older checkpoint");
  return *payload;
}

}  // namespace

TokenizerPtr cached_bpe(int64_t vocabulary, const std::vector<TextFile>& texts, EndOfSentence end, const std::string& cache_folder) {
  if (cache_folder.empty()) return train_bpe(vocabulary, texts, end);
  ContentHash hash;
  hash.add(bpe_settings(vocabulary, end));
  for (const auto& text : texts) hash.add(text.text);
  const fs::path path = fs::path(cache_folder) / (hash.text() + ".tokenizer");
  try {
    if (fs::exists(path)) return load_tokenizer(read_file(path));
  } catch (const DataError&) {
    // A damaged copy of what can be made again is no reason to stop.
  }
  const TokenizerPtr tokenizer = train_bpe(vocabulary, texts, end);
  write_atomically(path, tokenizer->serialized());
  return tokenizer;
}

std::string ByteTokenizer::serialized() const { return sealed(kBytes, ""); }
std::string SentencePieceTokenizer::serialized() const { return sealed(kSentencePiece, model()); }
// The languages, a space after each, end at a line feed.
std::string MultilingualTokenizer::serialized() const {
  std::string payload;
  for (const auto& language : languages_) payload += language + ' ';
  return sealed(kMultilingual, payload + '\n' + pieces_.model());
}

namespace {

TokenizerPtr load_multilingual(std::string_view payload) {
  const size_t end = payload.find('\n');
  require<DataError>(end != std::string_view::npos, "tokenizer: needs a list of languages, got other bytes; use an older checkpoint");
  std::istringstream list{std::string(payload.substr(0, end))};
  const std::vector<std::string> languages{std::istream_iterator<std::string>(list), {}};
  return std::make_shared<MultilingualTokenizer>(SentencePieceTokenizer("multilingual", payload.substr(end + 1)), languages);
}

}  // namespace

TokenizerPtr load_tokenizer(std::string_view serialized) {
  if (serialized.starts_with(kBytes)) {
    payload_of(kBytes, serialized);
    return std::make_shared<ByteTokenizer>();
  }
  if (serialized.starts_with(kMultilingual)) return load_multilingual(payload_of(kMultilingual, serialized));
  require<DataError>(serialized.starts_with(kSentencePiece), "tokenizer: needs a tokenizer that Sluice wrote, got other bytes");
  return std::make_shared<SentencePieceTokenizer>("sentencepiece", payload_of(kSentencePiece, serialized));
}

TokenizerPtr make_tokenizer(const std::string& spec, int64_t vocabulary, const std::vector<TextFile>& texts,
                            const std::string& cache_folder) {
  if (spec == "bytes") return std::make_shared<ByteTokenizer>();
  if (spec == "bpe") return cached_bpe(vocabulary, texts, EndOfSentence::none, cache_folder);
  const bool is_path = spec.ends_with(".model") || spec.find('/') != std::string::npos;
  const std::string nearest = nearest_word(spec, {"bytes", "bpe"});
  require(is_path, "tokenizer '", spec, "': needs bytes, bpe or the path of a .model file",
          nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  return std::make_shared<SentencePieceTokenizer>(spec, read_file(spec));
}

}  // namespace sluice::data
