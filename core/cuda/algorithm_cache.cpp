#include "core/cuda/algorithm_cache.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/cache_folder.h"
#include "core/file/file.h"
#include "core/file/hash.h"

namespace sluice::cublas {

namespace {

constexpr int kFormat = 1;
constexpr size_t kDigits = 16;  ///< of a word

using Algorithms = std::map<std::string, AlgorithmWords>;

std::string text_of(const AlgorithmWords& words) {
  std::string text;
  for (const uint64_t word : words)
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

std::optional<AlgorithmWords> words_of(const std::string& text) {
  AlgorithmWords words{};
  if (text.size() != words.size() * kDigits) return std::nullopt;
  for (size_t i = 0; i < words.size(); ++i) {
    const char *begin = text.data() + i * kDigits, *end = begin + kDigits;
    if (std::from_chars(begin, end, words[i], 16).ptr != end) return std::nullopt;
  }
  return words;
}

/// All that can be understood.
Algorithms parse(const std::string& text) {
  Algorithms algorithms;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) return algorithms;
  const auto entries = json.value("algorithms", nlohmann::json());
  if (!entries.is_object()) return algorithms;
  for (const auto& [key, value] : entries.items())
    if (value.is_string())
      if (const auto words = words_of(value.get<std::string>())) algorithms[key] = *words;
  return algorithms;
}

Algorithms read(const std::filesystem::path& file) {
  if (file.empty()) return {};
  try {
    return parse(read_file(file));
  } catch (const DataError&) {
    return {};
  }
}

void write(const std::filesystem::path& file, const Algorithms& algorithms) {
  auto entries = nlohmann::json::object();
  for (const auto& [key, words] : algorithms) entries[key] = text_of(words);
  const nlohmann::json json = {{"format", kFormat}, {"algorithms", entries}};
  try {
    write_atomically(file, json.dump(2) + "\n");
  } catch (const ResourceError&) {  // the choice serves this process all the same
  }
}

}  // namespace

AlgorithmCache::AlgorithmCache(std::filesystem::path file) : file_(std::move(file)), algorithms_(read(file_)) {}

std::optional<AlgorithmWords> AlgorithmCache::find(const std::string& key) const {
  const auto found = algorithms_.find(key);
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

void AlgorithmCache::keep(const std::string& key, const AlgorithmWords& words) {
  remember(key, words);
  if (file_.empty()) return;
  Algorithms all = read(file_);  // another process may have added to it
  all[key] = words;
  write(file_, all);
}

std::string AlgorithmCache::digest(std::string_view prefix) const {
  std::string found;
  for (const auto& [key, words] : algorithms_)
    if (key.starts_with(prefix)) found += key + text_of(words);
  return found.empty() ? "" : hash_of(found);
}

std::filesystem::path algorithm_cache_file(const char* name) {
  const auto folder = user_cache_folder();
  return folder.empty() ? folder : folder / name;
}

std::string key_of(const GpuDescription& gpu) { return join(gpu.name, ", driver ", gpu.driver_version, ", "); }

}  // namespace sluice::cublas
