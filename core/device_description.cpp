#include "core/device_description.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/device_folders.h"
#include "core/file/file.h"
#include "core/file/toml_depth.h"
#include "core/file/toml_number.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLinks = "links";

std::vector<fs::path> folders() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  return {fs::path(kSourceDevices), fs::path(kInstalledDevices), program / ".." / "share" / "sluice" / "devices"};
}

fs::path file_of(std::string_view name) {
  for (const auto& folder : folders())
    if (const fs::path file = folder / (std::string(name) + ".toml"); fs::is_regular_file(file)) return file;
  return {};
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

[[noreturn]] void refuse_name(const char* what, std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(name, known);
  throw UsageError(join(what, " '", name, "': unknown; ", nearest.empty() ? "" : "did you mean '" + nearest + "'? ", "Known are ",
                        listed(known), ", or the path of a TOML file"));
}

toml::table parsed(const fs::path& file) {
  try {
    const std::string text = read_file(file);
    check_toml_depth(text, file.string());
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    throw UsageError(join(file.string(), ":", error.source().begin.line, ": ", error.description(), "; correct the TOML"));
  }
}

/// A table of a file with the keys that it may have.
class Keys {
 public:
  Keys(const toml::table& table, std::string file, std::string prefix, std::vector<std::string> known)
      : table_(table), file_(std::move(file)), prefix_(std::move(prefix)) {
    for (const auto& [key, value] : table)
      if (const std::string name(key.str()); std::ranges::find(known, name) == known.end())
        throw UsageError(join(file_, ":", value.source().begin.line, ": unknown key '", prefix_, name, "'; known are ", listed(known)));
  }

  std::string text(const char* key) const {
    const auto value = table_[key].value<std::string>();
    require(value.has_value(), file_, ": needs the key ", prefix_, key, " with a text");
    return *value;
  }

  std::optional<double> number_if_there(const char* key, double least) const {
    if (!table_.contains(key)) return std::nullopt;
    const auto value = number_of(table_[key]);
    constexpr double kMost = 9e18;
    const bool is_in_range = value && std::isfinite(*value) && *value >= least && *value < kMost;
    require(is_in_range, file_, ": needs ", prefix_, key, " to be a number >= ", least, " and below ", kMost);
    return value;
  }

  double number(const char* key, double least) const {
    const auto value = number_if_there(key, least);
    require(value.has_value(), file_, ": needs the key ", prefix_, key, " with a number");
    return *value;
  }

  const toml::table& table(const char* key) const {
    const toml::table* table = table_[key].as_table();
    require(table != nullptr, file_, ": needs the table [", prefix_, key, "]");
    return *table;
  }

 private:
  const toml::table& table_;
  std::string file_, prefix_;
};

constexpr double kLeastSpeed = 1;  // a second: what takes longer for one byte or operation is a slip of the pen, and times overflow

LinkDescription link_of(const toml::table& table, const std::string& file, const std::string& name) {
  const Keys keys(table, file, name + ".", {"name", "bytes_per_second", "latency_seconds"});
  return {keys.text("name"), keys.number("bytes_per_second", kLeastSpeed), keys.number("latency_seconds", 0)};
}

constexpr double kLeastEfficiency = 1e-6;  // what is below is a slip of the pen as well

/// Of every op that the table names.
std::map<std::string, double, std::less<>> efficiencies(const toml::table& table, const std::string& file) {
  std::map<std::string, double, std::less<>> result;
  for (const auto& [key, value] : table) {
    const auto number = number_of(toml::node_view(value));
    require(number && *number >= kLeastEfficiency && *number <= 1, file, ":", value.source().begin.line, ": needs efficiency.", key.str(),
            " to be a fraction, >= ", kLeastEfficiency, " and <= 1");
    result.emplace(key.str(), *number);
  }
  return result;
}

}  // namespace

bool is_description_file(std::string_view name) { return name.find('/') != name.npos || name.ends_with(".toml"); }

DeviceDescription describe_device(std::string_view name_or_path) {
  const fs::path path = is_description_file(name_or_path) ? fs::path(name_or_path) : file_of(name_or_path);
  if (path.empty() || name_or_path == kLinks) refuse_name("device", name_or_path, described_devices());
  require(is_file(path), "device '", name_or_path, "': there is no such file; known without a file are ", listed(described_devices()));
  const toml::table root = parsed(path);
  const std::string file = path.string();
  const Keys keys(root, file, "",
                  {"name", "backend", "memory_bytes", "bytes_per_second", "flops_per_second", "efficiency", "launch_seconds", "link"});
  DeviceDescription result;
  result.file = file;
  result.name = keys.text("name");
  const std::string backend = keys.text("backend");
  require(backend == "cpu" || backend == "cuda", file, ": needs backend to be \"cpu\" or \"cuda\", got '", backend, "'");
  result.backend = backend == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  result.memory_bytes = static_cast<int64_t>(keys.number("memory_bytes", 1));
  result.bytes_per_second = keys.number("bytes_per_second", kLeastSpeed);
  const std::vector<std::string> precisions{"f32", "tf32", "bf16"};
  const Keys flops(keys.table("flops_per_second"), file, "flops_per_second.", precisions);
  for (const auto& precision : precisions)
    if (const auto value = flops.number_if_there(precision.c_str(), kLeastSpeed)) result.flops_per_second[precision] = *value;
  if (root.contains("efficiency")) result.efficiency = efficiencies(keys.table("efficiency"), file);
  result.launch_seconds = keys.number_if_there("launch_seconds", 0).value_or(0);
  result.link = link_of(keys.table("link"), file, "link");
  return result;
}

LinkDescription describe_link(std::string_view name_or_path) {
  if (!is_description_file(name_or_path)) {
    const fs::path file = file_of(kLinks);
    require(!file.empty(), "link '", name_or_path, "': links.toml is not where it was installed; install again, or give a file");
    const toml::table root = parsed(file);
    if (const toml::table* table = root[name_or_path].as_table()) return link_of(*table, file.string(), std::string(name_or_path));
    refuse_name("link", name_or_path, described_links());
  }
  require(is_file(name_or_path), "link '", name_or_path, "': there is no such file; known without a file are ", listed(described_links()));
  const toml::table root = parsed(name_or_path);
  const toml::table* table = root["link"].as_table();
  require(table != nullptr, name_or_path, ": needs the table [link]");
  return link_of(*table, std::string(name_or_path), "link");
}

std::vector<std::string> described_devices() {
  std::set<std::string> names;
  for (const auto& folder : folders()) {
    std::error_code nothing_there;
    for (const auto& entry : fs::directory_iterator(folder, nothing_there))
      if (entry.path().extension() == ".toml" && entry.path().stem() != kLinks) names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> described_links() {
  std::set<std::string> names;
  const fs::path file = file_of(kLinks);
  if (file.empty()) return {};
  for (const auto& [key, value] : parsed(file)) names.insert(std::string(key.str()));
  return {names.begin(), names.end()};
}

DeviceSpeed speed_of(const DeviceDescription& description, Precision precision) {
  const auto found = description.flops_per_second.find(std::string(name_of(precision)));
  require(found != description.flops_per_second.end(), description.file, ": ", description.name, " has no key flops_per_second.",
          name_of(precision), "; set train.precision to one that it has, or add the key");
  return {.flops_per_second = found->second,
          .bytes_per_second = description.bytes_per_second,
          .link_bytes_per_second = description.link.bytes_per_second,
          .link_latency_seconds = description.link.latency_seconds};
}

}  // namespace sluice
