#include "parallel/checkpoint/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <span>

#include "core/file/file.h"
#include "core/file/hash.h"
#include "core/utf8.h"

namespace sluice::parallel::checkpoint_layout {

bool is_step(const nlohmann::json& step) {
  return step.is_number_integer() && 0 <= step.get<int64_t>() && step.get<int64_t>() <= kMostSteps;
}

std::string folder_name(int64_t step) { return fmt::format("step-{:08}", step); }

std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error); entry != end(entry); entry.increment(error))
    names.push_back(entry->path().filename().string());
  return names;
}

std::set<int64_t> finished_steps(const std::filesystem::path& output) {
  static const std::regex form("step-([0-9]{8,18})");
  std::error_code error;
  const auto names = names_in(output, error);
  const bool is_there = error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory;
  require<DataError>(!error || !is_there, output.string(), ": the folder cannot be read: ", error.message(),
                     "; allow reading it and the folders above it, or choose another one");
  std::set<int64_t> steps;
  for (const std::string& name : names) {
    std::smatch match;
    if (!std::regex_match(name, match, form)) continue;
    const int64_t step = std::stoll(match[1]);
    if (name == folder_name(step)) steps.insert(step);  // "step-000000007" is no name of ours
  }
  return steps;
}

bool is_checkpoint(const std::filesystem::path& folder) {
  std::error_code nothing_there;
  return std::filesystem::is_regular_file(folder / kStateFile, nothing_there);
}

std::string reserve_name(int rank) { return fmt::format("reserve.tmp-{}", rank); }

bool is_temporary(const std::string& name) {
  static const std::regex form("(step-[0-9]{8,18}|reserve)\\.tmp-[0-9]+");
  return name == kNewLatestFile || std::regex_match(name, form);
}

std::string part_name(const std::string& name, int part, int parts) {
  if (parts == 1) return name;
  const size_t dot = name.rfind('.');
  return fmt::format("{}-{:05}-of-{:05}{}", name.substr(0, dot), part + 1, parts, name.substr(dot));
}

std::vector<std::string> part_names(const std::string& name, int parts) {
  std::vector<std::string> names;
  for (int part = 0; part < parts; ++part) names.push_back(part_name(name, part, parts));
  return names;
}

namespace {

/// As a state is, which is JSON.
void require_utf8(const std::string& text, const char* what) {
  const size_t invalid = first_invalid_utf8(text);
  require(invalid == text.npos, "checkpoint: needs ", what, " in UTF-8, byte ", invalid, " is none; convert it");
}

}  // namespace

void require_texts(const std::string& config, const std::map<std::string, std::string>& files) {
  require_utf8(config, "a config");
  static const std::regex taken("(model|optimizer|ema)(-[0-9]+-of-[0-9]+)?\\.safetensors|state\\.json");
  for (const auto& [name, content] : files) {
    require_utf8(name, "names of further files");
    require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
            "checkpoint: needs names of further files without folders, got '", name, "'");
    require(!std::regex_match(name, taken), "checkpoint: needs other names of further files than those that it has itself, got '", name,
            "'");
  }
}

std::string state_name(const std::string& parameter, const std::string& state) { return fmt::format("{}/{}", parameter, state); }

std::map<std::string, Shape> shapes_of(const layers::Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (const auto& parameter : graph.parameters()) shapes[parameter.name] = parameter.spec.shape;
  for (const auto& statistics : graph.statistics())
    for (const auto& name : {statistics.mean_name(), statistics.variance_name()}) shapes[name] = {statistics.spec.channels};
  return shapes;
}

Contents contents_of(const Trainer& trainer) { return {trainer.model(), trainer.optimizer_states(), trainer.averages()}; }

std::set<std::string> known_tensors(const layers::Graph& graph) {
  std::set<std::string> names;
  for (const auto& [name, shape] : shapes_of(graph)) names.insert(name);
  return names;
}

std::set<std::string> known_states(const Trainer& trainer) {
  std::set<std::string> names;
  const auto unneeded = trainer.optimizer().unneeded_state_names();
  for (const auto& parameter : trainer.graph().parameters()) {
    for (const auto& state : trainer.optimizer().states_of(parameter.spec.shape)) names.insert(state_name(parameter.name, state.name));
    for (const std::string& state : unneeded) names.insert(state_name(parameter.name, state));
  }
  return names;
}

TensorParts::TensorParts(const Checkpoint& checkpoint, const std::string& name) : is_of_states_(name == kOptimizerFile) {
  for (const std::string& part : part_names(name, checkpoint.parts)) {
    const std::string& path = paths_.emplace_back(checkpoint.path_of(part));
    for (const auto& [tensor, entry] : files_.emplace_back(path).tensors()) {
      const auto [first, is_new] = part_of_.try_emplace(tensor, files_.size() - 1);
      require<DataError>(is_new, path, ": '", tensor, "' is in ", paths_[first->second], " too; use an older checkpoint");
      tensors_[tensor] = entry;
    }
  }
}

const std::string& TensorParts::path_of(const std::string& tensor) const {
  const auto found = part_of_.find(tensor);
  return paths_[found == part_of_.end() ? 0 : found->second];
}

void TensorParts::require_tensor(const std::string& name, DType dtype, const Shape& shape) const {
  const std::string& file = path_of(name);
  const auto found = tensors_.find(name);
  require<DataError>(
      found != tensors_.end(), file, ": needs '", name, "' ", shape,
      ", the checkpoint has none: it is of another model or optimizer; check [model] and [optimizer] against the checkpoint's config",
      is_of_states_ ? "; or its training had the parameter frozen (Graph::freeze, train.freeze): begin a new one with its weights "
                      "(parallel::initialize, --init)"
                    : "");
  require<DataError>(found->second.shape == shape && found->second.dtype == dtype, file, ", '", name, "': the model needs ", name_of(dtype),
                     " ", shape, ", the checkpoint has ", name_of(found->second.dtype), " ", found->second.shape,
                     "; check [model] against the checkpoint's config");
}

void TensorParts::require_no_more(const std::set<std::string>& known) const {
  for (const auto& [name, entry] : tensors_)
    require<DataError>(known.contains(name), path_of(name), ": the checkpoint has '", name, "' ", entry.shape,
                       ", which this model or optimizer has not; check [model] and [optimizer] against the checkpoint's config");
}

namespace {

void check_finite(const TensorParts& parts, const std::string& name, const Tensor& tensor, int64_t first) {
  const Tensor here = tensor.to(default_device());
  const auto values = std::span(here.data<float>(), static_cast<size_t>(here.shape().elements()));
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  require<DataError>(found == values.end(), parts.path_of(name), ", '", name, "': needs finite weights, element ",
                     first + (found - values.begin()), " is ", found == values.end() ? 0 : *found,
                     ": the training diverged; use an older checkpoint");
}

}  // namespace

void check_finite(const TensorParts& parts, const std::map<std::string, Tensor>& weights) {
  for (const auto& [name, tensor] : weights) check_finite(parts, name, tensor, 0);
}

void check_finite(const TensorParts& parts, const std::vector<StatePart>& weights) {
  for (const StatePart& part : weights) check_finite(parts, part.name, part.tensor, part.elements.first);
}

void require_averages(const Checkpoint& checkpoint) {
  require<DataError>(checkpoint.has_averages, checkpoint.folder, ": needs ", kAverageFile,
                     ", as Optimizer::ema (optimizer.ema) is not 0, the checkpoint has none; set optimizer.ema = 0, or begin a new "
                     "training with its weights (parallel::initialize, --init)");
}

void require_weights_hash(const Checkpoint& checkpoint, const std::string& hash) {
  require<DataError>(hash == checkpoint.weights_hash, checkpoint.folder, ": needs weights with hash ", checkpoint.weights_hash, ", got ",
                     hash, "; use an older checkpoint");
}

std::string state_text(const nlohmann::json& state) { return state.dump(1) + "\n"; }

std::string checksum_of(const nlohmann::json& state) { return sluice::hash_of(state_text(state)); }

void write_state_file(const std::filesystem::path& folder, nlohmann::json state) {
  state["checksum"] = checksum_of(state);
  write_file(folder / kStateFile, state_text(state));
}

}  // namespace sluice::parallel::checkpoint_layout
