#include "parallel/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/file/file.h"
#include "core/file/safetensors.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/run/agreement.h"

namespace sluice::parallel {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The tensors of one kind, found to be those that their places want; nothing is read yet.
class Source {
 public:
  enum class Values { any, finite };
  /// Nothing else than what is `known` may be there, if given.
  Source(const Checkpoint& checkpoint, const char* name, const std::vector<StatePart>& places, const std::set<std::string>* known,
         Values values)
      : parts_(checkpoint, name), places_(places), values_(values) {
    for (const StatePart& part : places_) parts_.require_tensor(part.name, part.tensor.dtype(), part.shape);
    if (known) parts_.require_no_more(*known);
  }

  void read() const {
    for (const StatePart& part : places_) {
      if (part.is_whole()) {
        parts_.read(part.name, part.tensor);
      } else {
        const Tensor whole = empty(part.shape, part.tensor.dtype());
        parts_.read(part.name, whole);
        put({{part.name, whole}}, {part});
      }
    }
    if (values_ == Values::finite) checkpoint_layout::check_finite(parts_, places_);
  }

 private:
  checkpoint_layout::TensorParts parts_;
  std::vector<StatePart> places_;
  Values values_;
};

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
  require<DataError>(checkpoint_layout::is_step(step), file.string(), ": needs a step from 0 to ", kMostSteps, ", got ", step.dump(),
                     "; use an older checkpoint");
  return step;
}

/// Those before `step`, at most as many.
int64_t skipped_steps_of(const json& state, int64_t step, const fs::path& file) {
  const json skipped = state.value(checkpoint_layout::kSkippedStepsKey, json(0));
  require<DataError>(checkpoint_layout::is_step(skipped) && skipped <= step, file.string(), ": needs ", checkpoint_layout::kSkippedStepsKey,
                     " from 0 to its step, ", step, ", got ", skipped.dump(), "; use an older checkpoint");
  return skipped;
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
                     ": a newer version of Sluice wrote it; read it with that one, or use an older checkpoint");
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

/// The names of all files. What is read has to be among them: another file would be taken without a proof.
std::vector<std::string> files_of(const json& state, int parts, const fs::path& file) {
  std::vector<std::string> names;
  for (const auto& [name, summary] : state.at("files").items()) {
    require<DataError>(name.find('/') == name.npos, file.string(), ": needs names of files beside it, got '", name,
                       "'; use an older checkpoint");
    names.push_back(name);
  }
  const auto is_named = [&](const std::string& name) { return std::ranges::binary_search(names, name); };
  std::vector<const char*> kinds = {checkpoint_layout::kModelFile, checkpoint_layout::kOptimizerFile};
  if (is_named(checkpoint_layout::part_name(checkpoint_layout::kAverageFile, 0, parts))) kinds.push_back(checkpoint_layout::kAverageFile);
  for (const char* kind : kinds)
    for (const std::string& part : checkpoint_layout::part_names(kind, parts))
      require<DataError>(is_named(part), file.string(), ": needs ", part, " among its files, has none; use an older checkpoint");
  return names;
}

}  // namespace

bool Checkpoint::has_file(const std::string& name) const { return std::ranges::binary_search(files, name); }
std::string Checkpoint::path_of(const std::string& name) const { return fs::path(folder) / name; }

Checkpoint open_checkpoint(const std::string& path, Wanted wanted) try {
  const fs::path folder = path;
  require<DataError>(fs::is_directory(folder), path, ": needs a checkpoint folder (step-...), found ",
                     fs::exists(folder) ? "something else" : "nothing");
  const fs::path state_file = folder / checkpoint_layout::kStateFile;
  const json state = parse_state(state_file);
  const int parts = parts_of(state, state_file);
  const auto files = files_of(state, parts, state_file);
  const auto of_optimizer = checkpoint_layout::part_names(checkpoint_layout::kOptimizerFile, parts);
  for (const auto& name : files) {
    if (wanted == Wanted::weights && std::ranges::binary_search(of_optimizer, name)) continue;
    const json& expected = state.at("files").at(name);
    const FileSummary found = summarize_file(folder / name);
    require<DataError>(found.bytes == expected.at("bytes"), (folder / name).string(), ": needs ", expected.at("bytes").dump(),
                       " bytes, has ", found.bytes, "; use an older checkpoint");
    require<DataError>(found.hash == expected.at("xxh3_128").get<std::string>(), (folder / name).string(),
                       ": is damaged (checksum differs); use an older checkpoint");
  }
  const bool has_averages = std::ranges::binary_search(files, checkpoint_layout::part_name(checkpoint_layout::kAverageFile, 0, parts));
  const int64_t step = step_of(state, state_file);
  return {path,
          step,
          skipped_steps_of(state, step, state_file),
          state.at("config"),
          state.at("weights_hash"),
          has_averages,
          parts,
          files,
          state.value(checkpoint_layout::kGpuChoicesKey, GpuChoices())};
} catch (const json::exception& error) {
  throw DataError(join((fs::path(path) / checkpoint_layout::kStateFile).string(), ": is no state of a checkpoint: ", error.what()));
}

std::vector<std::string> finished_checkpoints(const std::string& output) {
  std::vector<std::string> folders;
  for (const int64_t step : checkpoint_layout::finished_steps(output))
    folders.push_back(fs::path(output) / checkpoint_layout::folder_name(step));
  return folders;
}

std::optional<Checkpoint> find_latest(const std::string& output, const std::function<void(const std::string&)>& warn, Wanted wanted) {
  constexpr int kMostListings = 1000;
  const fs::path parent = output;
  for (int listing = 0; listing < kMostListings; ++listing) {
    const auto steps = checkpoint_layout::finished_steps(output);
    std::error_code ignored;
    // A training may replace its only checkpoint between two entries of one listing.
    bool has_changed = steps.empty() && fs::exists(parent / checkpoint_layout::kLatestFile, ignored);
    for (auto step = steps.rbegin(); step != steps.rend() && !has_changed; ++step) {
      const fs::path folder = parent / checkpoint_layout::folder_name(*step);
      try {
        return open_checkpoint(folder, wanted);
      } catch (const DataError& error) {
        has_changed = !fs::exists(fs::symlink_status(folder, ignored));
        if (!has_changed && warn) warn(error.what());
      }
    }
    if (!has_changed) break;
  }
  return std::nullopt;
}

Checkpoint find_checkpoint(const std::string& path, const std::function<void(const std::string&)>& warn, Wanted wanted) {
  if (checkpoint_layout::is_checkpoint(path)) return open_checkpoint(path, wanted);
  std::string damages;
  const auto note = [&](const std::string& damage) {
    damages += "; " + damage;
    if (warn) warn(damage);
  };
  const auto latest = find_latest(path, note, wanted);
  require<DataError>(latest.has_value(), path, ": needs a checkpoint (step-... with state.json) or a folder of them, found ",
                     damages.empty() ? "none" : "none that is whole", damages);
  return *latest;
}

namespace {

/// All that a trainer that goes on has, in the order of reading.
std::vector<Source> sources_of(const Checkpoint& checkpoint, const Trainer& trainer) {
  const StateParts places = trainer.state_parts();
  const auto known = checkpoint_layout::known_tensors(trainer.graph()), known_states = checkpoint_layout::known_states(trainer);
  std::vector<Source> sources;
  if (trainer.optimizer().ema > 0) {
    checkpoint_layout::require_averages(checkpoint);
    sources.emplace_back(checkpoint, checkpoint_layout::kAverageFile, places.averages, &known, Source::Values::any);
  }
  // After the averages: those of a frozen parameter are the parameter itself.
  sources.emplace_back(checkpoint, checkpoint_layout::kModelFile, places.model, &known, Source::Values::finite);
  sources.emplace_back(checkpoint, checkpoint_layout::kOptimizerFile, places.states, &known_states, Source::Values::any);
  return sources;
}

/// Of a trainer that only evaluates.
std::vector<Source> evaluated_sources(const Checkpoint& checkpoint, bool averages, const Trainer& trainer) {
  if (averages) checkpoint_layout::require_averages(checkpoint);
  const auto known = checkpoint_layout::known_tensors(trainer.graph());
  std::vector<Source> sources;
  sources.emplace_back(checkpoint, averages ? checkpoint_layout::kAverageFile : checkpoint_layout::kModelFile, trainer.state_parts().model,
                       &known, Source::Values::finite);
  return sources;
}

/// Reads only once all ranks have found everything.
template <class Open>
void replace(const Checkpoint& checkpoint, Trainer& trainer, bool is_model, const Open& open) {
  std::vector<Source> sources;
  together(trainer.group(), [&] { sources = open(); });
  trainer.begin_replacing(checkpoint.folder);
  together(trainer.group(), [&] { std::ranges::for_each(sources, &Source::read); });
  if (is_model) checkpoint_layout::require_weights_hash(checkpoint, trainer.weights_hash());
  trainer.adopt_choices(checkpoint.gpu_choices);
  trainer.set_steps_done(checkpoint.step, checkpoint.skipped_steps);  // first: stochastic rounding of the working copies depends on it
  trainer.publish_parameters();
}

}  // namespace

void restore(const Checkpoint& checkpoint, Trainer& trainer) {
  replace(checkpoint, trainer, true, [&] { return sources_of(checkpoint, trainer); });
}

void restore_weights(const Checkpoint& checkpoint, bool averages, Trainer& trainer) {
  replace(checkpoint, trainer, !averages, [&] { return evaluated_sources(checkpoint, averages, trainer); });
}

std::map<std::string, Tensor> load_parameters(const Checkpoint& checkpoint, const layers::Graph& graph, Precision precision,
                                              const DevicePtr& device, bool averages) {
  const char* const file = averages ? checkpoint_layout::shown_file(checkpoint) : checkpoint_layout::kModelFile;
  std::vector<StatePart> places;
  std::map<std::string, Tensor> model;
  for (const auto& [name, shape] : checkpoint_layout::shapes_of(graph)) {
    model[name] = empty(shape, DType::f32, device);
    places.push_back({name, shape, {0, shape.elements()}, model[name]});
  }
  Source(checkpoint, file, places, nullptr, Source::Values::finite).read();
  for (const auto& parameter : graph.parameters()) model[parameter.name] = in_working_dtype(model[parameter.name], precision);
  return model;
}

}  // namespace sluice::parallel
