#include "training/loop.h"

#include <algorithm>
#include <utility>

#include "core/file/file.h"
#include "core/steady_clock.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/run/agreement.h"
#include "training/data_hash.h"
#include "training/loop_agreement.h"
#include "training/report/training_record.h"

namespace sluice::training {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHistoryFile = "evaluations.json";
constexpr const char* kLoss = "loss";  // what LoopOptions::watched calls it

void check(const LoopOptions& options, const data::Dataset* dataset) {
  require(dataset != nullptr, "training loop: needs a data set, got a null pointer");
  const auto at_least = [](const char* name, double least, double value) {
    require(value >= least, "training loop: LoopOptions::", name, " needs at least ", least, ", got ", value);
  };
  at_least("steps", 0, static_cast<double>(options.steps));
  at_least("evaluate_every", 0, static_cast<double>(options.evaluate_every));
  at_least("evaluate_samples", 0, static_cast<double>(options.evaluate_samples));
  at_least("patience", 0, options.patience);
  at_least("save_every", 0, static_cast<double>(options.save_every));
  at_least("save_minutes", 0, options.save_minutes);
  at_least("keep", 1, options.keep);
  require(options.patience == 0 || options.evaluate_every > 0, "training loop: LoopOptions::patience counts evaluations, got ",
          options.patience, " without LoopOptions::evaluate_every; set the steps between two evaluations, or patience to 0");
  parallel::checkpoint_layout::require_texts(options.config, options.files);
  for (const char* own : {kHistoryFile, kDataHashFile})
    require(!options.files.contains(own), "training loop: LoopOptions::files needs other names than '", own,
            "', which the loop writes itself");
  for (const auto& [name, make] : options.metrics) {
    require(make != nullptr, "training loop: LoopOptions::metrics needs a function that makes '", name, "', got none");
    require(name != kLoss, "training loop: LoopOptions::metrics needs other names than '", kLoss,
            "', by which LoopOptions::watched means the loss");
  }
  require(options.watched == kLoss || options.metrics.contains(options.watched), "training loop: LoopOptions::watched needs \"", kLoss,
          "\" or one of LoopOptions::metrics, got \"", options.watched, '"');
  const bool evaluates = options.evaluate_every > 0 || options.patience > 0 || options.keep_best;
  require(!evaluates || options.evaluate_sampler || dataset->size(data::Split::validation) > 0,
          "training loop: LoopOptions::evaluate_every, patience and keep_best need a data set with validation samples, got none; give it "
          "some, ",
          "or leave these out");
}

/// Ranks save together or not at all. `error` is null where what was thrown is no std::exception, which no rank throws for all.
bool can_save_after(const std::exception* error, const parallel::Trainer& trainer) {
  return !trainer.group() || dynamic_cast<const parallel::ThrownByAll*>(error) != nullptr;
}

}  // namespace

Loop::Loop(parallel::Trainer& trainer, data::DatasetPtr dataset, LoopOptions options)
    : trainer_(trainer), dataset_(std::move(dataset)), options_(std::move(options)), history_(options_.watched) {
  check(options_, dataset_.get());
  const bool saves = !options_.output.empty();
  require(saves || !options_.keep_best, "training loop: LoopOptions::keep_best needs an output; set LoopOptions::output");
  require(saves || (options_.save_every == 0 && options_.save_minutes == 0),
          "training loop: LoopOptions::save_every and save_minutes need an output; set LoopOptions::output");
  if (!saves) return;
  own_output_ = std::make_unique<parallel::OutputFolder>(options_.output, trainer_.group());
  output_ = own_output_.get();
}

Loop::Loop(parallel::Trainer& trainer, data::DatasetPtr dataset, LoopOptions options, parallel::OutputFolder& output)
    : trainer_(trainer), dataset_(std::move(dataset)), options_(std::move(options)), output_(&output), history_(options_.watched) {
  check(options_, dataset_.get());
}

void Loop::restore(const parallel::Checkpoint& checkpoint) {
  parallel::restore(checkpoint, trainer_);
  const auto read = [&](const parallel::Checkpoint& from) {
    const std::string file = from.path_of(kHistoryFile);
    if (from.has_file(kHistoryFile)) history_.read(read_file(file), file);
  };
  if (const std::string told = told_of_other_data(checkpoint, data_hash()); !told.empty() && on_warning) on_warning(told);
  // The path may end with a slash, be "." or a link: only the real one has the output folder as its parent.
  origin_ = {fs::canonical(checkpoint.folder).parent_path(), checkpoint.step};
  read(checkpoint);
  // The last evaluation comes after the last checkpoint.
  const auto best = parallel::find_latest(fs::path(origin_->folder) / kBestFolder, on_warning, parallel::Wanted::weights);
  if (best && best->step <= checkpoint.step) read(*best);
}

/// Empty where samples cannot be loaded: who needs them will say why.
const std::string& Loop::data_hash() {
  if (data_hash_) return *data_hash_;
  try {
    data_hash_ = data_hash_of(*dataset_);
  } catch (const std::exception&) {
    data_hash_ = "";
  }
  return *data_hash_;
}

bool Loop::resume() {
  require(output_ != nullptr, "training loop: resume needs the folder of checkpoints; set LoopOptions::output");
  const auto latest = parallel::find_latest(output_->path(), on_warning);
  if (latest) restore(*latest);
  return latest.has_value();
}

std::vector<std::string> Loop::prepare() {
  require(output_ != nullptr, "training loop: prepare needs the folder of checkpoints; set LoopOptions::output");
  keep_room();
  is_prepared_ = true;
  std::vector<std::string> aside{output_->set_aside_after(last_own_step(output_->path()))};
  const auto has_best = [&] { return std::string(fs::is_directory(best_folder()) ? "yes" : ""); };
  if (options_.keep_best || !parallel::on_root(trainer_.group(), has_best).empty()) {
    best_output_ = std::make_unique<parallel::OutputFolder>(best_folder(), trainer_.group());
    aside.push_back(best_output_->set_aside_after(std::max(last_own_step(output_->path()), last_own_step(best_folder()))));
    begin_best();
  }
  std::erase(aside, "");
  return aside;
}

/// What follows has to be better than what the folder has. The best until here may be in another one, or was never kept.
void Loop::begin_best() {
  kept_ = EvaluationHistory(options_.watched);
  const auto* best = history_.best();
  if (!best) return;
  const std::string here = parallel::on_root(trainer_.group(), [&] {
    const auto found = parallel::find_latest(best_folder(), {}, parallel::Wanted::weights);
    return found ? std::to_string(found->step) : std::string();
  });
  for (const auto& entry : history_.entries())
    if (std::to_string(entry.step) == here) kept_.add(entry);
  if (!options_.keep_best || std::to_string(best->step) == here) return;
  if (has_weights_of(best->step)) {
    kept_.add(*best);
    save_best();
  } else if (here.empty() && on_warning) {
    on_warning(join("the best weights until here, of step ", best->step, ", are not in ", best_folder(),
                    ", which keeps the best of what follows"));
  }
}

/// Of a step that was evaluated here. What ended the training then, such as a full disk, may have come before its best folder was written.
bool Loop::has_weights_of(int64_t step) const {
  return trainer_.steps_done() == step && (evaluated_step_ == step || last_own_step(output_->path()) == step);
}

/// Of the checkpoints in a folder, the last that this training goes on from; -1: none.
int64_t Loop::last_own_step(const std::string& folder) const {
  std::error_code ignored;
  return origin_ && fs::equivalent(origin_->folder, folder, ignored) ? origin_->step : -1;
}

void Loop::keep_room() {
  constexpr size_t kBytesOfAMetric = 64;
  constexpr int64_t kMostEvaluations = 1 << 14;  // of a training without end, which has no room for all
  const int64_t evaluations = options_.evaluate_every > 0 ? std::min(options_.steps / options_.evaluate_every + 1, kMostEvaluations) : 1;
  size_t bytes = 2 * options_.config.size() + static_cast<size_t>(evaluations) * (options_.metrics.size() + 2) * kBytesOfAMetric;
  for (const auto& [name, content] : options_.files) bytes += content.size();
  bytes += data_hash().size();
  output_->keep_room(trainer_, static_cast<int64_t>(bytes));
}

Loop::End Loop::run() {
  if (parallel::Group* const group = trainer_.group()) require_equal_loops(*group, options_, *dataset_, data_hash(), output_ != nullptr);
  if (output_ && !std::exchange(is_prepared_, false)) prepare();
  if (options_.record && options_.record->config.empty()) options_.record->config = options_.config;
  const int64_t first = trainer_.steps_done();
  End end;
  try {
    end = run_steps();
  } catch (const std::exception& error) {
    if (output_) save_after(&error, first);
    throw;
  } catch (...) {
    if (output_) save_after(nullptr, first);
    throw;
  }
  if (output_) {
    output_->release_room();
    if (saved_step_ != trainer_.steps_done()) save();
  }
  if (end != End::stopped && evaluated_step_ != trainer_.steps_done()) evaluate_now();
  if (options_.record) options_.record->note_end(trainer_);
  return end;
}

Loop::End Loop::run_steps() {
  data::Loader loader = options_.sampler ? data::Loader(dataset_, options_.sampler, loading()) : data::Loader(dataset_, loading());
  saved_at_ = steady_seconds();
  seconds_ = {};
  left_evaluation_ = false;
  if (lacks_evaluation() && !is_stopped()) evaluate_now();
  while (trainer_.steps_done() < options_.steps) {
    if (is_stopped()) return End::stopped;
    if (!has_patience()) return End::no_better;
    step(loader);
    if (trainer_.steps_done() == options_.steps) break;
    if (is_due(options_.evaluate_every)) evaluate_now();
    if ((is_due(options_.save_every) || wants_save_) && output_) save();
  }
  return is_stopped() ? End::stopped : End::steps_done;
}

void Loop::step(data::Loader& loader) {
  const Batch batch = loader.at(trainer_.steps_done());
  const auto result = trainer_.step(batch);
  seconds_.steps += result.seconds;
  seconds_.data = loader.seconds_waited();
  wants_save_ = result.wish.save || (!trainer_.group() && is_time_to_save());
  if (options_.record) options_.record->note_step(trainer_, batch, result);
  if (on_step) on_step({trainer_.steps_done(), batch, result});
}

void Loop::evaluate_now() {
  auto batches = validation_batches();
  if (batches.size() == 0 && !on_evaluation) return;
  std::map<std::string, std::shared_ptr<Metric>> metrics;
  for (const auto& [name, make] : options_.metrics) metrics[name] = make();
  note(evaluate(trainer_, batches, metrics, stop));
}

void Loop::note(const Evaluation& evaluation) {
  const int64_t step = trainer_.steps_done();
  left_evaluation_ = !evaluation.is_complete;
  if (evaluation.is_complete && evaluation.loss) {
    history_.add({step, *evaluation.loss, evaluation.metrics});
    kept_.add({step, *evaluation.loss, evaluation.metrics});
    evaluated_step_ = step;
  }
  if (options_.record) options_.record->note_evaluation(trainer_, evaluation);
  if (on_evaluation) on_evaluation(step, evaluation);
  const auto* best = kept_.best();
  if (options_.keep_best && evaluated_step_ == step && best && best->step == step) save_best();
}

std::string Loop::save_to(parallel::OutputFolder& folder, int keep) {
  auto files = options_.files;
  if (!history_.entries().empty()) files[kHistoryFile] = history_.text();
  if (const std::string& hash = data_hash(); !hash.empty()) files[kDataHashFile] = hash;
  return folder.save(trainer_, options_.config, files, keep);
}

void Loop::save(bool after_error) {
  const std::string folder = save_to(*output_, options_.keep);
  saved_at_ = steady_seconds();
  saved_step_ = trainer_.steps_done();
  if (on_save) on_save({folder, trainer_.steps_done(), false, after_error});
}

void Loop::save_best() {
  const std::string folder = save_to(*best_output_, 1);
  if (on_save) on_save({folder, trainer_.steps_done(), true, false});
}

/// The error that ends the training counts for more than one of saving.
void Loop::save_after(const std::exception* error, int64_t first) {
  output_->release_room();
  if (trainer_.steps_done() == first || !can_save_after(error, trainer_)) return;
  const auto warn = [&](const char* why) {
    if (on_warning) on_warning(join("step ", trainer_.steps_done(), " is not saved: ", why));
  };
  try {
    save(true);
  } catch (const std::exception& second) {
    warn(second.what());
  } catch (...) {
    warn("what was thrown is no std::exception");
  }
}

/// Of the checkpoint that was restored: one that ended its training was saved before its last evaluation, and one that a signal asked for in
/// the place of an evaluation. A training that never stopped evaluates there.
bool Loop::lacks_evaluation() const {
  const int64_t step = trainer_.steps_done();
  return origin_ && origin_->step == step && step < options_.steps && is_due(options_.evaluate_every) &&
         std::ranges::find(history_.entries(), step, &EvaluationHistory::Entry::step) == history_.entries().end();
}

bool Loop::is_due(int64_t every) const { return every > 0 && trainer_.steps_done() % every == 0; }

bool Loop::is_time_to_save() const { return options_.save_minutes > 0 && steady_seconds() - saved_at_ >= options_.save_minutes * 60; }

data::LoaderOptions Loop::loading() const {
  std::vector<std::string> inputs = trainer_.inputs_here();
  const int threads = inputs.empty() ? 0 : options_.threads;
  const auto part = [samples_here = trainer_.samples_here()](const std::string& input, int64_t samples) {
    const auto [begin, end] = samples_here(input, samples);
    return data::SampleRange{begin, end};
  };
  return {.batch = options_.batch, .seed = options_.seed, .threads = threads, .inputs = std::move(inputs), .part = part};
}

data::ValidationLoader Loop::validation_batches() const {
  if (options_.evaluate_sampler) return {dataset_, options_.evaluate_sampler, loading()};
  return {dataset_, loading(), options_.evaluate_samples};
}

}  // namespace sluice::training
