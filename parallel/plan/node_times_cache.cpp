#include "parallel/plan/node_times_cache.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file/file.h"
#include "core/file/hash.h"
#include "parallel/plan/check.h"

namespace sluice::parallel {

namespace {

constexpr int kFormat = 2;

std::optional<NodeTimes> times_of(const nlohmann::json& list) {
  if (!list.is_array() || list.size() != kNodeTimes.size()) return std::nullopt;
  NodeTimes times;
  for (size_t i = 0; i < kNodeTimes.size(); ++i) {
    if (!list[i].is_number()) return std::nullopt;
    times.*kNodeTimes[i] = list[i].get<double>();
    if (!is_node_time(times.*kNodeTimes[i])) return std::nullopt;
  }
  return times;
}

/// All that can be understood.
std::map<std::string, NodeTimes> parse(const std::string& text) {
  std::map<std::string, NodeTimes> times;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) return times;
  const auto entries = json.value("times", nlohmann::json());
  if (!entries.is_object()) return times;
  for (const auto& [hash, list] : entries.items())
    if (const auto entry = times_of(list)) times[hash] = *entry;
  return times;
}

std::map<std::string, NodeTimes> read(const std::filesystem::path& file) {
  if (file.empty()) return {};
  try {
    return parse(read_file(file));
  } catch (const DataError&) {
    return {};
  }
}

void write(const std::filesystem::path& file, const std::map<std::string, NodeTimes>& times) {
  auto entries = nlohmann::json::object();
  for (const auto& [hash, entry] : times)
    for (const auto part : kNodeTimes) entries[hash].push_back(entry.*part);
  const nlohmann::json json = {{"format", kFormat}, {"times", entries}};
  try {
    write_atomically(file, json.dump(1) + "\n");
  } catch (const ResourceError&) {  // the times serve this process all the same
  }
}

}  // namespace

NodeTimesCache::NodeTimesCache(std::filesystem::path file) : file_(std::move(file)), times_(read(file_)) {}

std::optional<NodeTimes> NodeTimesCache::find(const std::string& text) const {
  const auto found = times_.find(sluice::hash_of(text));
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

void NodeTimesCache::keep(const std::map<std::string, NodeTimes>& by_text) {
  if (!file_.empty()) times_ = read(file_);  // another process may have added to it
  for (const auto& [text, times] : by_text) times_[sluice::hash_of(text)] = times;
  if (!file_.empty()) write(file_, times_);
}

}  // namespace sluice::parallel
