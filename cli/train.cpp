#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "cli/build.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/foresee.h"
#include "cli/list_text.h"
#include "cli/progress.h"
#include "cli/report/json_report.h"
#include "cli/report/report.h"
#include "cli/sample_text.h"
#include "cli/signals.h"
#include "cli/trained_model.h"
#include "cli/validate.h"
#include "core/file/file.h"
#include "data/loader.h"
#include "parallel/checkpoint/initialize.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// One training from settings to results.
class Training {
  using Clock = std::chrono::steady_clock;

 public:
  Training(Settings settings, const Arguments& arguments)
      : settings_(std::move(settings)),
        arguments_(arguments),
        console_(arguments.text("--json") == "-" ? stderr : stdout),
        report_(arguments.text("--report", settings_.text("output.report"))),
        trace_(arguments.text("--trace", settings_.text("output.trace"))),
        steps_(settings_.integer("train.steps")),
        graph_(build_graph(settings_)),
        optimizer_(build_optimizer(settings_)),
        plan_(build_plan(graph_, settings_, *optimizer_)),
        speeds_(speeds_of(plan_.devices, plan_.precision)),
        replanner_(build_replanner(graph_, settings_, *optimizer_, speeds_)) {}

  int run() {
    ignore_output_signals();
    foresee();
    parallel::OutputFolder output(settings_.text("output.dir"));
    require_writable("--report (output.report)", report_);  // often in that folder
    require_writable("--trace (output.trace)", trace_);
    require_writable("--json", arguments_.text("--json"));
    const auto checkpoint = start_point(), model = initial_model();
    corpus_ = load_corpus(settings_, checkpoint ? preparation_of(*checkpoint) : Preparation{model ? tokenizer_to_keep(*model) : "", {}});
    if (settings_.flag("train.baseline")) require_text(corpus_);
    parallel::Trainer trainer(graph_, plan_, *optimizer_, build_trainer_options(settings_));
    if (checkpoint) resume(*checkpoint, trainer);
    if (model) say("{}: {}\n", model->folder.string(), parallel::describe(parallel::initialize(*model, trainer)));
    output.keep_room(trainer, further_bytes());
    make_room(output, checkpoint);
    train_and_save(trainer, output);
    finish(trainer);
    return caught_signal() == 0 ? 0 : 128 + caught_signal();
  }

 private:
  /// Predicts the step and refuses what cannot run, before any work.
  void foresee() {
    require(plan_.devices[0]->kind() != DeviceKind::meta, "pipeline.devices: training needs cpu or cuda devices, got ",
            plan_.devices[0]->name(), "; sluice plan takes devices that only count");
    settings_.set(join("pipeline.micro_batches=", plan_.micro_batches));  // which decides the bits: a resumed training keeps it
    record_.config = settings_.toml();
    record_.parameters = graph_.parameter_count();
    record_.item = is_image_model(settings_) ? "sample" : "token";
    record_.items_per_step = settings_.integer("train.batch") * (is_image_model(settings_) ? 1 : settings_.integer("model.context"));
    record_.prediction = parallel::predict(graph_, plan_, *optimizer_, settings_.integer("train.batch"), speeds_);
    if (!plan_.times.empty()) record_.measured_seconds = record_.prediction.step_seconds;
    record_.counted_seconds = counted_step_seconds(graph_, plan_, *optimizer_, settings_, speeds_);
    peak_flops_ = peak_flops_of(plan_, speeds_);
    if (!peak_flops_) say("no MFU: products in bf16 run on this processor's AMX, whose peak is not measured here\n");
    require_memory(graph_, plan_, *optimizer_, settings_, record_.prediction);
    say("{} parameters, {} nodes as {} on {} devices, {} micro-batches, {}\n", record_.parameters, graph_.nodes().size(),
        list_text(plan_.partition.stage_sizes(), "+"), plan_.devices.size(), plan_.micro_batches, name_of(plan_.schedule));
  }

  /// The checkpoint to continue from; nothing to start anew.
  std::optional<parallel::Checkpoint> start_point() const {
    const std::string wanted = arguments_.text("--resume");
    if (wanted == "auto") return parallel::find_latest(settings_.text("output.dir"), warn);
    if (!wanted.empty()) return find_checkpoint(wanted);
    return std::nullopt;
  }

  /// The checkpoint whose weights the training begins with; nothing to draw them.
  std::optional<parallel::Checkpoint> initial_model() const {
    const std::string wanted = arguments_.text("--init");
    if (wanted.empty()) return std::nullopt;
    return find_checkpoint(wanted);
  }

  /// Embeddings mean the pieces of the tokenizer that they were trained with.
  std::string tokenizer_to_keep(const parallel::Checkpoint& model) const {
    const bool same = settings_of(model, {}).text("data.tokenizer") == settings_.text("data.tokenizer");
    return same && !is_image_model(settings_) ? tokenizer_of(model) : "";
  }

  void resume(const parallel::Checkpoint& checkpoint, parallel::Trainer& trainer) {
    parallel::restore(checkpoint, trainer);
    warn_of_changes(settings_of(checkpoint, {}));
    say("continuing from {}\n", checkpoint.folder.string());
  }

  /// A schedule runs until the end of the training, which then is not free to change.
  static bool follows_the_end(const Settings& settings) {
    const bool by_rate = settings.text("optimizer.schedule") == "cosine" && settings.integer("optimizer.total_steps") == 0;
    return by_rate || (settings.number("model.drop_path_keep") < 1 && settings.integer("model.drop_path_steps") == 0);
  }

  /// A continued training gives the bits of an uninterrupted one only when nothing but the pipeline, the output and the end changed.
  void warn_of_changes(const Settings& before) const {
    const auto lines = [](const Settings& settings) {
      std::vector<std::string> list;
      for (const Option& option : options()) {
        const bool free = option.name.starts_with("pipeline.") || option.name.starts_with("output.") ||
                          option.name == "train.on_nonfinite" || (option.name == "train.steps" && !follows_the_end(settings));
        if (!free) list.push_back(fmt::format("{} = {}", option.name, toml_text(settings.value(option.name))));
      }
      return list;
    };
    const auto then = lines(before), now = lines(settings_);
    for (size_t i = 0; i < now.size(); ++i)
      if (then[i] != now[i]) warn(fmt::format("the checkpoint was trained with {}, now it is {}", then[i], now[i]));
  }

  void make_room(parallel::OutputFolder& output, const std::optional<parallel::Checkpoint>& checkpoint) {
    std::error_code ignored;
    // The path may end with a slash, be "." or a link: only the real one has the output folder as its parent.
    const fs::path resumed = checkpoint ? fs::canonical(checkpoint->folder) : fs::path();
    const bool same_folder = checkpoint && fs::equivalent(resumed.parent_path(), output.path(), ignored);
    const auto aside = output.set_aside_after(same_folder ? checkpoint->step : -1);
    if (!aside.empty()) say("moved other checkpoints of {} to {}\n", output.path().string(), aside.string());
  }

  /// However the training ends, its last good step is saved, in the room that was kept for it.
  void train_and_save(parallel::Trainer& trainer, parallel::OutputFolder& output) {
    first_step_ = trainer.steps_done();
    try {
      train(trainer, output);
    } catch (...) {
      output.release_room();
      if (trainer.steps_done() > first_step_) save_before_error(trainer, output);
      throw;
    }
    output.release_room();
    save(trainer, output);
  }

  /// The error that ends the training counts for more than one of saving.
  void save_before_error(const parallel::Trainer& trainer, parallel::OutputFolder& output) try {
    save(trainer, output);
    say("step {} is saved in {}; --resume auto continues\n", trainer.steps_done(), saved_.string());
  } catch (const std::exception& error) {
    warn(fmt::format("step {} is not saved: {}", trainer.steps_done(), error.what()));
  }

  void train(parallel::Trainer& trainer, parallel::OutputFolder& output) {
    data::LoaderOptions loading;
    loading.batch = settings_.integer("train.batch");
    loading.seed = static_cast<uint64_t>(settings_.integer("train.seed"));
    loading.threads = static_cast<int>(settings_.integer("data.threads"));
    data::Loader loader(corpus_.dataset, loading);
    peaks_.assign(plan_.devices.size(), 0);
    ProgressLine progress(console_, trainer.steps_done(), steps_);
    watch_signals();
    saved_at_ = Clock::now();
    while (trainer.steps_done() < steps_ && caught_signal() == 0) {
      const auto result = trainer.step(loader.at(trainer.steps_done()));
      note_peaks();
      const int64_t step = trainer.steps_done();
      if (result.was_skipped) {
        note_skipped(progress, step);
      } else {
        record_.steps.push_back({step, result});
        progress.show(progress_of(step, result));
        hold_against_plan(trainer, progress);
      }
      if (is_multiple(step, "train.evaluate_every") && step < steps_) progress.say(note_validation(trainer));
      if ((is_multiple(step, "output.save_every") || is_time_to_save()) && step < steps_) save(trainer, output);
    }
    progress.finish();
    record_.steps_done = trainer.steps_done();
  }

  /// What the first steps took corrects what is predicted, and may move the training to another plan.
  void hold_against_plan(parallel::Trainer& trainer, ProgressLine& progress) try {
    const auto finding = replanner_.note_step(trainer);
    if (!finding) return;
    const std::string text = note_finding(*finding, trainer, record_);
    plan_ = trainer.plan();
    if (finding->next) record_.counted_seconds = counted_step_seconds(graph_, plan_, *optimizer_, settings_, speeds_);
    if (!text.empty()) progress.say(text);
  } catch (const parallel::StoppedError&) {
  }

  bool is_multiple(int64_t step, std::string_view key) const { return settings_.integer(key) > 0 && step % settings_.integer(key) == 0; }

  /// Says so of the 1st, 2nd, 4th, 8th, ...: all steps may be skipped once weights have gone wrong.
  void note_skipped(ProgressLine& progress, int64_t step) {
    if (std::has_single_bit(static_cast<uint64_t>(++record_.skipped_steps)))
      progress.say(fmt::format("step {} is skipped: its gradient is not finite; {} skipped so far", step, record_.skipped_steps));
  }

  bool is_time_to_save() const {
    const double minutes = settings_.number("output.save_minutes");
    return minutes > 0 && std::chrono::duration<double>(Clock::now() - saved_at_).count() >= minutes * 60;
  }

  void note_peaks() {
    for (size_t i = 0; i < peaks_.size(); ++i) peaks_[i] = std::max(peaks_[i], plan_.devices[i]->peak_bytes());
  }

  Progress progress_of(int64_t step, const parallel::StepResult& result) const {
    Progress progress;
    progress.step = step;
    progress.steps = steps_;
    progress.result = result;
    progress.item = record_.item;
    progress.items_per_second = static_cast<double>(record_.items_per_step) / result.seconds;
    if (peak_flops_) progress.utilization = result.flops / result.seconds / *peak_flops_;
    progress.counts_recomputation = std::find(plan_.rematerialize.begin(), plan_.rematerialize.end(), true) != plan_.rematerialize.end();
    const auto fullest = static_cast<size_t>(std::max_element(peaks_.begin(), peaks_.end()) - peaks_.begin());
    progress.peak_bytes = peaks_[fullest];
    progress.budget_bytes = plan_.devices[fullest]->budget_bytes();
    return progress;
  }

  /// Returns what to say of it. Its memory does not count as training's.
  std::string note_validation(parallel::Trainer& trainer) {
    const Validation validation = validate(trainer, corpus_, settings_, [] { return caught_signal() != 0; });
    for (auto& device : plan_.devices) device->reset_peak();
    if (!validation.is_complete) return fmt::format("validation after step {}: stopped by a signal", trainer.steps_done());
    const auto accuracy = validation.loss && validation.classification ? std::optional(validation.classification->top(1)) : std::nullopt;
    if (validation.loss) record_.validations.push_back({trainer.steps_done(), *validation.loss, accuracy});
    return fmt::format("validation after step {}: {}", trainer.steps_done(), describe(validation));
  }

  void save(const parallel::Trainer& trainer, parallel::OutputFolder& output) {
    saved_ = output.save(trainer, record_.config, files_of(corpus_), static_cast<int>(settings_.integer("output.keep")));
  }

  /// Of what a checkpoint holds beside its tensors.
  int64_t further_bytes() const {
    size_t bytes = 2 * record_.config.size();
    for (const auto& [name, content] : files_of(corpus_)) bytes += content.size();
    return static_cast<int64_t>(bytes);
  }

  /// All is saved by now: what follows may take a while, and a second signal ends the program.
  void finish(parallel::Trainer& trainer) {
    record_.weights_hash = trainer.weights_hash();
    record_.trace = trainer.trace();
    if (trainer.cuda_graphs().is_possible()) record_.cuda_graphs = trainer.cuda_graphs();
    for (size_t i = 0; i < plan_.devices.size(); ++i)
      record_.devices.push_back(
          {plan_.devices[i]->name(), record_.prediction.devices[i].peak_bytes, peaks_[i], plan_.devices[i]->budget_bytes()});
    if (caught_signal() == 0) {
      say("{}\n", note_validation(trainer));
      if (settings_.flag("train.baseline") && caught_signal() == 0) baseline();
    }
    tell();
    write_results(trainer);
  }

  void baseline() {
    const EndAtOnce all_is_saved;
    record_.trigram_loss = trigram_loss(corpus_, settings_);
    if (record_.trigram_loss)
      say("trigram model on the same split: loss {:.4f}, perplexity {:.2f}\n", *record_.trigram_loss, std::exp(*record_.trigram_loss));
  }

  void tell() {
    for (const auto& device : record_.devices)
      say("{}: peak {} bytes ({}), predicted {}\n", device.name, device.peak_bytes, bytes_text(device.peak_bytes),
          device.predicted_peak_bytes);
    say("step: {:.2f} ms, predicted {}\n", median_of_steps(record_, &parallel::StepResult::seconds) * 1e3, predictions_text(record_));
    say("bubble: {:.1f} %, predicted {:.1f} %\n", median_of_steps(record_, &parallel::StepResult::bubble) * 100,
        record_.prediction.bubble * 100);
    if (record_.cuda_graphs) say("CUDA graphs: {}\n", record_.cuda_graphs->text());
    if (record_.skipped_steps > 0) say("{} steps were skipped: their gradients were not finite\n", record_.skipped_steps);
    say("weights {} saved in {}\n", record_.weights_hash, saved_.string());
    if (caught_signal() != 0) say("ended by a signal after step {}; --resume auto continues\n", record_.steps_done);
  }

  void write_results(parallel::Trainer& trainer) {
    write_json(train_json(record_), arguments_.text("--json"));
    if (!trace_.empty()) write_file(trace_, parallel::chrome_trace(record_.trace, parallel::topology_of(graph_), record_.prediction.trace));
    if (report_.empty()) return;
    if (caught_signal() == 0) show_samples(trainer);
    write_file(report_, html_report(record_));
  }

  void show_samples(parallel::Trainer& trainer) {
    constexpr int64_t kImages = 32;
    const EndAtOnce all_is_saved;
    if (corpus_.tokenizer) record_.sample = sample_text(trainer, *corpus_.tokenizer, settings_);
    if (corpus_.images) record_.images = judge_images(trainer, corpus_.images, kImages, settings_.integer("train.batch"));
  }

  template <class... Parts>
  void say(fmt::format_string<Parts...> form, Parts&&... parts) {
    console_.print(fmt::format(form, std::forward<Parts>(parts)...));
  }

  Settings settings_;
  const Arguments& arguments_;
  Console console_;
  const std::string report_, trace_;  ///< files to write at the end; empty for none
  int64_t steps_, first_step_ = 0;
  layers::Graph graph_;
  std::unique_ptr<Optimizer> optimizer_;
  parallel::Plan plan_;
  std::vector<DeviceSpeed> speeds_;  ///< by device
  parallel::Replanner replanner_;
  std::optional<double> peak_flops_;  ///< of all devices together, in the precision of the products
  Corpus corpus_;
  std::vector<int64_t> peaks_;
  fs::path saved_;
  Clock::time_point saved_at_;
  RunRecord record_;
};

}  // namespace

int run_train(const Arguments& arguments) {
  Settings settings = read_settings(arguments.argument, arguments.list("--set"));
  if (arguments.has("--print-config")) {
    fmt::print("{}", settings.toml());
    flush_result();
    return 0;
  }
  require(!arguments.has("--init") || !arguments.has("--resume"),
          "--init: begins a new training, --resume continues one; give one of them");
  return Training(std::move(settings), arguments).run();
}

}  // namespace sluice::cli
