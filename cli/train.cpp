#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/continued.h"
#include "cli/exit_codes.h"
#include "cli/failure.h"
#include "cli/foresee.h"
#include "cli/job.h"
#include "cli/list_text.h"
#include "cli/progress.h"
#include "cli/rank_settings.h"
#include "cli/report/json_report.h"
#include "cli/report/report_sections.h"
#include "cli/result_files.h"
#include "cli/sample_attention.h"
#include "cli/sample_text.h"
#include "cli/signals.h"
#include "cli/trained_model.h"
#include "cli/validate.h"
#include "core/byte_units.h"
#include "core/device_speeds.h"
#include "core/file/file.h"
#include "parallel/checkpoint/initialize.h"
#include "parallel/plan/replicas.h"
#include "parallel/run/agreement.h"
#include "training/loop.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Where the report goes; empty: there is none.
std::string report_file(const Arguments& arguments, const Settings& settings) {
  const std::string file = arguments.text("--report", settings.text("output.report"));
  return file == "auto" ? (fs::path(settings.text("output.dir")) / "report.html").string() : file;
}

/// One training from settings to results.
class Training {
 public:
  /// `output`  the folder of checkpoints where `resumed` was found under its lock; null opens it once all that can be refused was.
  Training(Settings settings, const Arguments& arguments, const Job& job, std::unique_ptr<parallel::OutputFolder> output,
           std::optional<parallel::Checkpoint> resumed)
      : settings_(std::move(settings)),
        output_(std::move(output)),
        resumed_(std::move(resumed)),
        arguments_(arguments),
        job_(job),
        console_(arguments.text("--json") == "-" ? stderr : stdout, !job.is_root()),
        report_(report_file(arguments, settings_)),
        trace_(arguments.text("--trace", settings_.text("output.trace"))),
        steps_(settings_.integer("train.steps")),
        graph_(build_graph(settings_)),
        optimizer_(build_optimizer(settings_)),
        plan_(build_plan(graph_, settings_, *optimizer_, ranks(), &trials_)),
        speeds_(job.is_root() ? speeds_of(plan_.devices, plan_.precision) : std::vector<DeviceSpeed>()),
        replanner_(build_replanner(graph_, settings_, *optimizer_, speeds_)) {}

  int run() {
    ignore_output_signals();
    if (ranks()) say("{}\n", job_.text());
    if (const std::string why = parallel::why_so_many_replicas(trials_); !why.empty()) say("{}\n", why);
    settings_.set(join("pipeline.micro_batches=", plan_.micro_batches));    // which decide the bits: a resumed training keeps them
    settings_.set(join("pipeline.replicas=", plan_.replication.replicas));  // which eval runs again
    settings_.set(join("pipeline.fold_blocks=", plan_.replication.fold_blocks));
    record_.config = settings_.toml();
    parallel::on_root(ranks(), [&] { foresee(); });
    if (!output_) output_ = std::make_unique<parallel::OutputFolder>(settings_.text("output.dir"), ranks());
    parallel::on_root(ranks(), [&] { require_results_writable(); });
    const auto model = checkpoint_to_begin_with(arguments_, ranks());
    parallel::together(ranks(), [&] {
      corpus_ =
          load_corpus(settings_, resumed_ ? preparation_of(*resumed_) : Preparation{model ? tokenizer_to_keep(*model, settings_) : "", {}});
      if (settings_.flag("train.baseline")) require_text(corpus_);
    });
    if (resumed_) parallel::on_root(ranks(), [&] { warn_of_other_classes(*resumed_, corpus_); });
    say("{}", corpus_.parallel.summary);
    parallel::on_root(ranks(), [&] { note_predicted_peaks(); });  // refuses lengths that do not fit
    if (corpus_.parallel.dataset) replanner_.require_room_for(mini_batch_shapes(corpus_, graph_, settings_));
    auto trainer = std::make_unique<parallel::Trainer>(graph_, plan_, *optimizer_, trainer_options());
    loop_.emplace(*trainer, corpus_.dataset, loop_options(), *output_);
    loop_->on_warning = warn;
    if (resumed_) resume(*loop_);
    if (model) begin_with(*model, *trainer);
    for (const auto& aside : loop_->prepare()) say("moved other checkpoints of {} to {}\n", fs::path(aside).parent_path().string(), aside);
    train(*trainer, *loop_);
    finish(std::move(trainer));
    if (end_signal() != 0) return exit_code_of_signal(end_signal());
    parallel::on_root(ranks(), [&] { require_a_step_that_counted(); });
    return 0;
  }

 private:
  parallel::Group* ranks() const { return job_.ranks().get(); }

  parallel::TrainerOptions trainer_options() const {
    auto options = build_trainer_options(settings_);
    options.group = job_.ranks();
    options.config = list_text(answer_lines(settings_), "\n");
    options.wish = [this] { return parallel::Wish{caught_signal(), loop_ && loop_->is_time_to_save()}; };
    return options;
  }

  /// The signal that ends the training: over several ranks the one that they have agreed upon.
  int end_signal() const { return ranks() ? wish_.signal : caught_signal(); }

  void require_results_writable() const {
    require_writable("--report (output.report)", report_);  // often in the output folder
    require_writable("--trace (output.trace)", trace_);
    require_writable("--json", arguments_.text("--json"));
    require_harmless({{"--report (output.report)", report_}, {"--trace (output.trace)", trace_}, {"--json", arguments_.text("--json")}},
                     files_read(arguments_.argument, settings_));
  }

  /// Predicts the step and refuses what cannot run, before any work.
  void foresee() {
    require(plan_.devices[0]->kind() != DeviceKind::meta, "pipeline.devices: training needs cpu or cuda devices, got ",
            plan_.devices[0]->name(), "; sluice plan takes devices that only count");
    record_.parameters = graph_.parameter_count();
    record_.has_ranks = ranks() != nullptr;
    record_.item = is_image_model(settings_) ? "sample" : "token";
    record_.items_per_step = settings_.integer("train.batch") * tokens_per_sample(settings_);
    record_.loss_unit = "nats";
    record_.predict_step(graph_, plan_, *optimizer_, settings_.integer("train.batch"), speeds_);
    peak_flops_ = peak_flops_of(plan_, speeds_);
    require_memory(graph_, plan_, *optimizer_, settings_, record_.prediction, job_.devices_of_host(static_cast<int>(plan_.devices.size())));
    say("{} parameters, {} nodes as {} on {} devices, {} micro-batches, {}\n", record_.parameters, graph_.nodes().size(),
        list_text(plan_.partition.stage_sizes(), "+"), plan_.devices.size(), plan_.micro_batches, name_of(plan_.schedule));
  }

  /// By device. Of sentences those of mini-batches of all lengths, which have to fit before any work.
  std::vector<int64_t> predicted_peaks() const {
    if (corpus_.parallel.dataset)
      return parallel::peak_bytes_of_steps(graph_, plan_, *optimizer_, mini_batch_shapes(corpus_, graph_, settings_));
    std::vector<int64_t> peaks;
    for (const auto& device : record_.prediction.devices) peaks.push_back(device.peak_bytes);
    return peaks;
  }

  /// Those of a run are those of whichever of its plans needs more.
  void note_predicted_peaks() {
    const auto peaks = predicted_peaks();
    predicted_peaks_.resize(peaks.size());
    for (size_t i = 0; i < peaks.size(); ++i) predicted_peaks_[i] = std::max(predicted_peaks_[i], peaks[i]);
  }

  void begin_with(const parallel::Checkpoint& model, parallel::Trainer& trainer) {
    for (const auto& change : changes_of_use(model, settings_)) warn(change);
    say("{}: {}\n", model.folder, parallel::describe(parallel::initialize(model, trainer)));
  }

  void resume(training::Loop& loop) {
    loop.restore(*resumed_);
    for (const auto& change : changes_of_answer(settings_of(*resumed_, {}), settings_)) warn(change);
    say("continuing from {}\n", resumed_->folder);
  }

  /// In the room that was kept for its last checkpoint.
  void train(parallel::Trainer& trainer, training::Loop& loop) {
    ProgressLine progress(console_, trainer.steps_done(), steps_);
    loop.on_step = [&](const training::Loop::Step& step) { note(trainer, step, progress); };
    loop.on_evaluation = [&](int64_t step, const training::Evaluation& evaluation) {
      if (evaluation.wish.signal != 0) wish_ = evaluation.wish;
      if (step == steps_) progress.finish();
      progress.say(note_validation(step, evaluation));
    };
    loop.on_save = [&](const training::Loop::Saved& saved) {
      if (!saved.is_best) saved_ = saved.folder;
      if (saved.after_error) say("step {} is saved in {}; --resume auto continues\n", saved.step, saved.folder);
    };
    loop.stop = [this] { return end_signal() != 0; };
    watch_signals();
    const auto end = loop.run();
    progress.finish();
    if (end == training::Loop::End::no_better) say("{}\n", why_it_ended(loop.history()));
  }

  training::LoopOptions loop_options() {
    training::LoopOptions options;
    options.steps = steps_;
    options.threads = static_cast<int>(settings_.integer("data.threads"));
    options.sampler = training_sampler(corpus_, settings_);
    options.evaluate_every = settings_.integer("train.evaluate_every");
    options.evaluate_sampler = validation_sampler(corpus_, settings_);
    if (!corpus_.class_names.empty()) options.metrics["accuracy"] = [this] { return classification_ = classification_of(corpus_); };
    options.patience = static_cast<int>(settings_.integer("train.patience"));
    options.save_every = settings_.integer("output.save_every");
    options.save_minutes = settings_.number("output.save_minutes");
    options.keep = static_cast<int>(settings_.integer("output.keep"));
    options.keep_best = settings_.flag("output.keep_best");
    options.config = record_.config;
    options.record = &record_;
    options.files = files_of(corpus_);
    return options;
  }

  std::string why_it_ended(const training::EvaluationHistory& history) const {
    const auto* best = history.best(settings_.integer("train.evaluate_every"));
    return fmt::format("ended after {} validations without a smaller loss{}", settings_.integer("train.patience"),
                       best ? fmt::format(" than {:.4f}, that of step {}", best->loss, best->step) : "");
  }

  void note(parallel::Trainer& trainer, const training::Loop::Step& step, ProgressLine& progress) {
    note_tokens(step.batch);
    wish_ = step.result.wish;
    if (step.result.was_skipped) {
      note_skipped(progress, step.number);
    } else {
      progress.show(progress_of(step.number, step.result));
      hold_against_plan(trainer, progress);
    }
  }

  /// What the first steps took corrects what is predicted, and may move the training to another plan.
  void hold_against_plan(parallel::Trainer& trainer, ProgressLine& progress) try {
    if (!job_.is_root()) return;  // which alone has the times of all devices
    const auto finding = replanner_.note_step(trainer);
    if (!finding) return;
    const std::string text = note_finding(*finding, trainer, record_);
    plan_ = trainer.plan();
    if (finding->next) {
      note_predicted_peaks();
      record_.counted_seconds = training::counted_step_seconds(graph_, plan_, *optimizer_, settings_.integer("train.batch"), speeds_);
    }
    if (!text.empty()) progress.say(text);
  } catch (const parallel::StoppedError&) {
  }

  /// Says so of the 1st, 2nd, 4th, 8th, ...: all steps may be skipped once weights have gone wrong.
  void note_skipped(ProgressLine& progress, int64_t step) {
    if (std::has_single_bit(static_cast<uint64_t>(record_.skipped_steps)))
      progress.say(fmt::format("step {} is skipped: its gradient is not finite; {} skipped so far", step, record_.skipped_steps));
  }

  /// Mini-batches of sentences have as many as fit: the mean of those so far counts, without padding.
  void note_tokens(const Batch& batch) {
    if (!is_translation_model(settings_)) return;
    for (const char* lengths : {"source_length", "target_length"})
      for (const double tokens : batch.load(lengths, 0, batch.samples).to_vector()) tokens_ += static_cast<int64_t>(tokens);
    record_.items_per_step = tokens_ / ++batches_;
  }

  Progress progress_of(int64_t step, const parallel::StepResult& result) const {
    Progress progress;
    progress.step = step;
    progress.steps = steps_;
    progress.result = result;
    progress.item = record_.item;
    progress.items_per_second = static_cast<double>(record_.items_per_step) / result.seconds;
    progress.utilization = result.flops / result.seconds / peak_flops_;
    progress.counts_recomputation = std::find(plan_.rematerialize.begin(), plan_.rematerialize.end(), true) != plan_.rematerialize.end();
    const auto fullest = std::ranges::max_element(record_.devices, {}, &RunRecord::Device::peak_bytes);
    progress.peak_bytes = fullest->peak_bytes;
    progress.budget_bytes = fullest->budget_bytes;
    return progress;
  }

  /// Returns what to say of it.
  std::string note_validation(int64_t step, const training::Evaluation& evaluation) {
    if (!evaluation.is_complete) return fmt::format("validation after step {}: stopped by a signal", step);
    const Validation validation = validation_of(evaluation, classification_, corpus_);
    return fmt::format("validation after step {}: {}", step, describe(validation));
  }

  /// All is saved by now: what follows may take a while, and a second signal ends the program.
  void finish(std::unique_ptr<parallel::Trainer> trainer) {
    if (trainer->cuda_graphs().is_possible()) record_.cuda_graphs = trainer->cuda_graphs();
    for (size_t i = 0; i < predicted_peaks_.size(); ++i) record_.devices[i].predicted_peak_bytes = predicted_peaks_[i];
    if (settings_.flag("train.baseline") && end_signal() == 0 && job_.is_root()) baseline();
    if (job_.is_root()) tell();
    parallel::on_root(ranks(), [&] { write_results(); });
    if (report_.empty()) return;
    if (end_signal() == 0) show_samples(std::move(trainer));
    parallel::on_root(ranks(), [&] { training::write_report(report_, record_, report_sections(record_)); });
  }

  /// All is written by now, but what was trained are the weights of before.
  void require_a_step_that_counted() const {
    require<parallel::DivergenceError>(record_.skipped_steps == 0 || !record_.steps.empty(), "training: no weight has changed, as all ",
                                       record_.skipped_steps,
                                       " steps of this run were skipped: their gradients are not finite. train.on_nonfinite = \"stop\" "
                                       "names the first node that makes such a "
                                       "number; weights of a checkpoint that are too large need an older one, else lower optimizer.lr, set "
                                       "optimizer.clip or correct the data");
  }

  void baseline() {
    const EndAtOnce all_is_saved;
    const auto loss = trigram_loss(corpus_, settings_);
    if (!loss) return;
    record_.baselines[kTrigram] = *loss;
    say("trigram model on the same split: loss {:.4f}, perplexity {:.2f}\n", *loss, std::exp(*loss));
  }

  void tell() {
    if (!record_.has_run()) say("no step was left to do\n");
    for (const auto& device : record_.devices)
      if (record_.has_run())
        say("{}: peak {} bytes ({}), predicted {}\n", device.name, device.peak_bytes, bytes_text(device.peak_bytes),
            device.predicted_peak_bytes);
    if (const auto seconds = record_.median_of_steps(&parallel::StepResult::seconds))
      say("step: {:.2f} ms, predicted {}\n", *seconds * 1e3, record_.predictions_text());
    if (const auto bubble = record_.median_of_steps(&parallel::StepResult::bubble))
      say("bubble: {:.1f} %, predicted {:.1f} %\n", *bubble * 100, record_.prediction.bubble * 100);
    if (record_.has_ranks && !record_.steps.empty()) {
      const auto& last = record_.steps.back().result;
      say("between ranks: {} bytes a step ({}), planned {}\n", last.bytes_between_ranks, bytes_text(last.bytes_between_ranks),
          last.planned_bytes_between_ranks);
    }
    if (const auto [steps, data] = loop_->seconds(); data > 1 && data > steps / 20)
      say("data: {:.2f} s of waiting for mini-batches beside {:.2f} s of steps; more data.threads than {} may load them in time\n", data,
          steps, settings_.integer("data.threads"));
    if (record_.cuda_graphs) say("CUDA graphs: {}\n", record_.cuda_graphs->text());
    if (record_.skipped_steps > 0) say("{} steps were skipped: their gradients were not finite\n", record_.skipped_steps);
    say("weights {} saved in {}\n", record_.weights_hash, saved_.string());
    if (end_signal() != 0) say("ended by a signal after step {}; --resume auto continues\n", record_.steps_done);
  }

  void write_results() {
    write_json(train_json(record_), arguments_.text("--json"));
    if (!trace_.empty())
      replace_file(trace_, parallel::chrome_trace(record_.trace, parallel::topology_of(graph_), record_.prediction.trace));
  }

  void show_samples(std::unique_ptr<parallel::Trainer> trainer) {
    constexpr int64_t kImages = 32;
    const EndAtOnce all_is_saved;
    if (corpus_.images)
      show_if_there_is_memory("images",
                              [&] { record_.images = judge_images(*trainer, corpus_.images, kImages, settings_.integer("train.batch")); });
    trainer.reset();  // what follows has its memory
    if (!job_.is_root()) return;
    if (corpus_.text)
      show_if_there_is_memory("a sample of text", [&] {
        record_.sample = sample_text(parallel::open_checkpoint(saved_, parallel::Wanted::weights), graph_, *corpus_.tokenizer, settings_);
      });
    if (corpus_.parallel.tokenizer)
      show_if_there_is_memory("translations of held-out pairs, or the attention of one", [&] { show_translations(); });
  }

  /// Where memory is short, all else of the report stays.
  template <class F>
  void show_if_there_is_memory(const char* what, F show) try {
    show();
  } catch (const ResourceError& error) {
    warn(fmt::format("the report lacks {}: {}; once there is more memory, train --resume auto writes it anew", what, explain(error)));
  }

  /// As `sluice eval` does, but over ranks on the root's first device alone.
  void show_translations() {
    const auto checkpoint = parallel::open_checkpoint(saved_, parallel::Wanted::weights);
    const auto devices = ranks() ? std::vector{plan_.devices[0]} : plan_.devices;
    say("translating held-out pairs for the report\n");
    record_.translation = score_translations(checkpoint, corpus_.parallel, settings_, devices);
    record_.attention =
        sample_attention(checkpoint, graph_, *corpus_.parallel.tokenizer, record_.translation->examples, settings_, devices);
  }

  template <class... Parts>
  void say(fmt::format_string<Parts...> form, Parts&&... parts) {
    console_.print(fmt::format(form, std::forward<Parts>(parts)...));
  }

  Settings settings_;
  std::unique_ptr<parallel::OutputFolder> output_;
  const std::optional<parallel::Checkpoint> resumed_;
  const Arguments& arguments_;
  const Job& job_;
  Console console_;
  const std::string report_, trace_;  ///< files to write at the end; empty for none
  int64_t steps_;
  layers::Graph graph_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<parallel::ReplicaTrial> trials_;
  parallel::Plan plan_;
  std::vector<DeviceSpeed> speeds_;  ///< by device
  parallel::Replanner replanner_;
  std::vector<int64_t> predicted_peaks_;  // by device
  double peak_flops_ = 0;                 ///< of all devices together, in the precision of the products
  Corpus corpus_;
  std::optional<training::Loop> loop_;
  std::shared_ptr<training::Classification> classification_;  ///< of the last evaluation, of a model of classes
  int64_t tokens_ = 0, batches_ = 0;                          ///< of sentences, of this run
  fs::path saved_;
  parallel::Wish wish_;  ///< of all ranks, in the last step
  RunRecord record_;
};

}  // namespace

namespace {

/// Before the newest checkpoint is looked for: a training that still writes there would go on beyond it, and take it away.
std::unique_ptr<parallel::OutputFolder> folder_to_resume(const Arguments& arguments, const Settings& settings, parallel::Group* ranks) {
  const std::string &path = settings.text("output.dir"), wanted = arguments.text("--resume");
  const auto is_searched = [&] {
    std::error_code ignored;
    const bool is_named = wanted == "auto" || fs::equivalent(wanted, path, ignored);
    return std::string(is_named && fs::is_directory(path, ignored) ? "yes" : "");
  };
  if (wanted.empty() || parallel::on_root(ranks, is_searched).empty()) return nullptr;
  return std::make_unique<parallel::OutputFolder>(path, ranks);
}

}  // namespace

int run_train(const Arguments& arguments) {
  if (arguments.has("--print-config")) {
    fmt::print("{}", read_settings(arguments.argument, arguments.list("--set")).toml());
    flush_result();
    return 0;
  }
  require(!arguments.has("--init") || !arguments.has("--resume"),
          "--init: begins a new training, --resume continues one; give one of them");
  Job job;
  return job.run([&] {
    Settings settings = settings_of_ranks(arguments, job);
    auto output = folder_to_resume(arguments, settings, job.ranks().get());
    auto resumed = checkpoint_to_resume(arguments, settings, job.ranks().get());
    if (resumed) keep_what_decides_bits(*resumed, settings);
    return Training(std::move(settings), arguments, job, std::move(output), std::move(resumed)).run();
  });
}

}  // namespace sluice::cli
