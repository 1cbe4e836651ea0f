#include "parallel/checkpoint.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/file/safetensors.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/run/agreement.h"

namespace sluice::parallel {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Throws unless `found` is what a parameter needs: names both.
void check_tensor(const std::string& name, const checkpoint_layout::TensorParts& tensors, DType dtype, const Shape& shape) {
  const std::string& file = tensors.path();
  const auto found = tensors.tensors().find(name);
  require<DataError>(
      found != tensors.tensors().end(), file, ": needs '", name, "' ", shape,
      ", the checkpoint has none: it is of another model or optimizer; check [model] and [optimizer] against the checkpoint's config");
  require<DataError>(found->second.shape == shape && found->second.dtype == dtype, file, ", '", name, "': the model needs ", name_of(dtype),
                     " ", shape, ", the checkpoint has ", name_of(found->second.dtype), " ", found->second.shape,
                     "; check [model] against the checkpoint's config");
}

/// Throws when the file has a tensor that nobody asked for.
void check_no_more(const checkpoint_layout::TensorParts& tensors, const std::map<std::string, Tensor>& wanted,
                   const std::set<std::string>& left_aside) {
  for (const auto& [name, entry] : tensors.tensors())
    require<DataError>(wanted.contains(name) || left_aside.contains(name), tensors.path(), ": the checkpoint has '", name, "' ",
                       entry.shape,
                       ", which this model or optimizer has not; check [model] and [optimizer] against the checkpoint's config");
}

/// Returns the file, as messages name it.
std::string read_all(const Checkpoint& checkpoint, const char* name, const std::map<std::string, Tensor>& wanted,
                     const std::set<std::string>& left_aside = {}) {
  const checkpoint_layout::TensorParts parts(checkpoint, name);
  for (const auto& [tensor, into] : wanted) check_tensor(tensor, parts, into.dtype(), into.shape());
  check_no_more(parts, wanted, left_aside);
  for (const auto& [tensor, into] : wanted) parts.read(tensor, into);
  return parts.path();
}

/// A state that was not written by us may nest so deep that showing or comparing it would end the process.
json parse_shallow(const fs::path& file, const std::string& text) {
  constexpr int kMostNested = 8;
  const auto check = [&](int depth, json::parse_event_t, json&) {
    require<DataError>(depth <= kMostNested, file.string(), ": is no state of a checkpoint: it nests more than ", kMostNested,
                       " objects; use an older checkpoint");
    return true;
  };
  return json::parse(text, check, false);
}

int64_t step_of(const json& state, const fs::path& file) {
  const json& step = state.at("step");
  const bool is_legal = step.is_number_integer() && 0 <= step.get<int64_t>() && step.get<int64_t>() <= kMostSteps;
  require<DataError>(is_legal, file.string(), ": needs a step from 0 to ", kMostSteps, ", got ", step.dump(), "; use an older checkpoint");
  return step;
}

json parse_state(const fs::path& file) {
  const std::string text = read_file(file);
  json state = parse_shallow(file, text);
  require<DataError>(state.is_object() && text == checkpoint_layout::state_text(state), file.string(),
                     ": is damaged (not as it was written); use an older checkpoint");
  const std::string checksum = state.value("checksum", "");
  state.erase("checksum");
  require<DataError>(checksum == checkpoint_layout::checksum_of(state), file.string(),
                     ": is damaged (checksum differs); use an older checkpoint");
  const json& format = state.at("format");
  require<DataError>(format == checkpoint_layout::kFormat || format == checkpoint_layout::kFormatOfParts, file.string(), ": needs format ",
                     checkpoint_layout::kFormat, " or ", checkpoint_layout::kFormatOfParts, ", got ", format.dump(),
                     ": made by another version of Sluice; use that one, or train anew");
  return state;
}

int parts_of(const json& state, const fs::path& file) {
  constexpr int kMostParts = 99999;
  if (state.at("format") == checkpoint_layout::kFormat) return 1;
  const json& parts = state.at("parts");
  const bool is_legal = parts.is_number_integer() && 1 < parts.get<int64_t>() && parts.get<int64_t>() <= kMostParts;
  require<DataError>(is_legal, file.string(), ": needs 2 to ", kMostParts, " parts, got ", parts.dump(), "; use an older checkpoint");
  return parts;
}

/// Whether a file holds one kind of tensors, or a part of it.
bool is_part_of(const std::string& file, const char* name, int parts) {
  for (int part = 0; part < parts; ++part)
    if (file == checkpoint_layout::part_name(name, part, parts)) return true;
  return false;
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& folder, Wanted wanted) try {
  require<DataError>(fs::is_directory(folder), folder.string(), ": needs a checkpoint folder (step-...), found ",
                     fs::exists(folder) ? "something else" : "nothing");
  const json state = parse_state(folder / checkpoint_layout::kStateFile);
  const int parts = parts_of(state, folder / checkpoint_layout::kStateFile);
  for (const auto& [name, expected] : state.at("files").items()) {
    if (wanted == Wanted::weights && is_part_of(name, checkpoint_layout::kOptimizerFile, parts)) continue;
    const FileSummary found = summarize_file(folder / name);
    require<DataError>(found.bytes == expected.at("bytes"), (folder / name).string(), ": needs ", expected.at("bytes").dump(),
                       " bytes, has ", found.bytes, "; use an older checkpoint");
    require<DataError>(found.hash == expected.at("xxh3_128").get<std::string>(), (folder / name).string(),
                       ": is damaged (checksum differs); use an older checkpoint");
  }
  return {folder,
          step_of(state, folder / checkpoint_layout::kStateFile),
          state.at("config"),
          state.at("weights_hash"),
          state.at("files").contains(checkpoint_layout::part_name(checkpoint_layout::kAverageFile, 0, parts)),
          parts};
} catch (const json::exception& error) {
  throw DataError(join((folder / checkpoint_layout::kStateFile).string(), ": is no state of a checkpoint: ", error.what()));
}

std::optional<Checkpoint> find_latest(const fs::path& output, const std::function<void(const std::string&)>& warn, Wanted wanted) {
  constexpr int kMostListings = 1000;
  for (int listing = 0; listing < kMostListings; ++listing) {
    const auto steps = checkpoint_layout::finished_steps(output);
    std::error_code ignored;
    // A training may replace its only checkpoint between two entries of one listing.
    bool has_changed = steps.empty() && fs::exists(output / checkpoint_layout::kLatestFile, ignored);
    for (auto step = steps.rbegin(); step != steps.rend() && !has_changed; ++step) {
      const fs::path folder = output / checkpoint_layout::folder_name(*step);
      try {
        return open_checkpoint(folder, wanted);
      } catch (const DataError& error) {
        has_changed = !fs::exists(fs::symlink_status(folder, ignored));
        if (!has_changed) warn(error.what());
      }
    }
    if (!has_changed) break;
  }
  return std::nullopt;
}

namespace {

void check_has_averages(const Checkpoint& checkpoint) {
  require<DataError>(checkpoint.has_averages, checkpoint.folder.string(), ": needs ", checkpoint_layout::kAverageFile,
                     ", as optimizer.ema is not 0, the checkpoint has none; set optimizer.ema = 0, or begin anew from it with --init");
}

/// The step comes first: stochastic rounding of the working copies depends on it.
void publish(const Checkpoint& checkpoint, Trainer& trainer) {
  trainer.set_steps_done(checkpoint.step);
  trainer.publish_parameters();
}

void check_hash(const Checkpoint& checkpoint, const Trainer& trainer) {
  const std::string hash = trainer.weights_hash();
  require<DataError>(hash == checkpoint.weights_hash, checkpoint.folder.string(), ": needs weights with hash ", checkpoint.weights_hash,
                     ", got ", hash, "; use an older checkpoint");
}

void read_into(const checkpoint_layout::Contents& contents, const Checkpoint& checkpoint, const Trainer& trainer) {
  const auto model_file = read_all(checkpoint, checkpoint_layout::kModelFile, contents.model, contents.model_elsewhere);
  checkpoint_layout::check_finite(model_file, contents.model);
  read_all(checkpoint, checkpoint_layout::kOptimizerFile, contents.states, contents.other_states);
  if (trainer.optimizer().ema > 0) {
    check_has_averages(checkpoint);
    read_all(checkpoint, checkpoint_layout::kAverageFile, contents.averages, contents.model_elsewhere);
  }
}

}  // namespace

void restore(const Checkpoint& checkpoint, Trainer& trainer) {
  const auto contents = checkpoint_layout::contents_of(trainer);
  together(trainer.group(), [&] { read_into(contents, checkpoint, trainer); });
  publish(checkpoint, trainer);
  check_hash(checkpoint, trainer);
}

void restore_weights(const Checkpoint& checkpoint, bool averages, Trainer& trainer) {
  const auto contents = checkpoint_layout::contents_of(trainer);
  together(trainer.group(), [&] {
    if (averages) check_has_averages(checkpoint);
    const auto file = read_all(checkpoint, averages ? checkpoint_layout::kAverageFile : checkpoint_layout::kModelFile, contents.model,
                               contents.model_elsewhere);
    checkpoint_layout::check_finite(file, contents.model);
  });
  publish(checkpoint, trainer);
  if (!averages) check_hash(checkpoint, trainer);
}

std::map<std::string, Tensor> load_parameters(const Checkpoint& checkpoint, const layers::Graph& graph, Precision precision,
                                              const DevicePtr& device) {
  std::map<std::string, Tensor> model;
  for (const auto& [name, shape] : checkpoint_layout::shapes_of(graph)) model[name] = empty(shape, DType::f32, device);
  const auto file = read_all(checkpoint, checkpoint_layout::shown_file(checkpoint), model);
  checkpoint_layout::check_finite(file, model);
  for (const auto& parameter : graph.parameters()) model[parameter.name] = in_working_dtype(model[parameter.name], precision);
  return model;
}

}  // namespace sluice::parallel
