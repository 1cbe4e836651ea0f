#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "cli/build.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/json_report.h"
#include "cli/list_text.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/sample_text.h"
#include "cli/signals.h"
#include "cli/trained_model.h"
#include "cli/validate.h"
#include "core/file.h"
#include "core/machine_limits.h"
#include "data/loader.h"
#include "parallel/initialize.h"
#include "parallel/plan_advice.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// One training from settings to results.
class Training {
 public:
  Training(Settings settings, const Arguments& arguments)
      : settings_(std::move(settings)),
        arguments_(arguments),
        out_(arguments.text("--json") == "-" ? stderr : stdout),
        steps_(settings_.integer("train.steps")),
        graph_(build_graph(settings_)),
        optimizer_(build_optimizer(settings_)),
        plan_(build_plan(graph_, settings_, *optimizer_)),
        speeds_(speeds_of(plan_.devices, plan_.precision)) {}

  int run() {
    foresee();
    parallel::OutputFolder output(settings_.text("output.dir"));
    const auto checkpoint = start_point(), model = initial_model();
    corpus_ = load_corpus(settings_, checkpoint ? preparation_of(*checkpoint) : Preparation{model ? tokenizer_to_keep(*model) : "", {}});
    parallel::Trainer trainer(graph_, plan_, *optimizer_, build_trainer_options(settings_));
    if (checkpoint) resume(*checkpoint, trainer);
    if (model) fmt::print(out_, "{}: {}\n", model->folder.string(), parallel::describe(parallel::initialize(*model, trainer)));
    make_room(output, checkpoint);
    train(trainer, output);
    finish(trainer, output);
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
    measure_peak();
    if (!record_.prediction.fits) throw OutOfMemory("the plan does not fit: " + record_.prediction.reason + advice());
    fmt::print(out_, "{} parameters, {} nodes as {} on {} devices, {} micro-batches, {}\n", record_.parameters, graph_.nodes().size(),
               list_text(parallel::stage_sizes(plan_), "+"), plan_.devices.size(), plan_.micro_batches, plan_.schedule);
  }

  std::string advice() const {
    const std::string advice = parallel::nearest_that_fits(graph_, plan_.devices, plan_options(settings_, *optimizer_));
    return advice.empty() ? "" : "; " + advice;
  }

  /// Predictions go by the speed in f32, which most operations of a CPU device have; only products are faster in bf16.
  void measure_peak() {
    peak_flops_ = 0;
    for (const DeviceSpeed& speed : speeds_) *peak_flops_ += speed.flops_per_second;
    if (plan_.devices[0]->kind() == DeviceKind::cpu && plan_.precision == Precision::bf16) {
      const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
      peak_flops_ = measured_bf16_peak_flops(std::min(cores, plan_.devices[0]->options().threads));
      if (peak_flops_) *peak_flops_ *= static_cast<double>(plan_.devices.size());
    }
    if (!peak_flops_) fmt::print(out_, "no MFU: products in bf16 run on this processor's AMX, whose peak is not measured here\n");
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
    fmt::print(out_, "continuing from {}\n", checkpoint.folder.string());
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
                          (option.name == "train.steps" && !follows_the_end(settings));
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
    const bool same_folder = checkpoint && fs::equivalent(checkpoint->folder.parent_path(), output.path(), ignored);
    const auto aside = output.set_aside_after(same_folder ? checkpoint->step : -1);
    if (!aside.empty()) fmt::print(out_, "moved other checkpoints of {} to {}\n", output.path().string(), aside.string());
  }

  void train(parallel::Trainer& trainer, parallel::OutputFolder& output) {
    data::LoaderOptions loading;
    loading.batch = settings_.integer("train.batch");
    loading.seed = static_cast<uint64_t>(settings_.integer("train.seed"));
    loading.threads = static_cast<int>(settings_.integer("data.threads"));
    data::Loader loader(corpus_.dataset, loading);
    peaks_.assign(plan_.devices.size(), 0);
    ProgressLine progress(out_, trainer.steps_done(), steps_);
    watch_signals();
    while (trainer.steps_done() < steps_ && caught_signal() == 0) {
      const auto result = trainer.step(loader.at(trainer.steps_done()));
      note_peaks();
      const int64_t step = trainer.steps_done();
      record_.steps.push_back({step, result});
      progress.show(progress_of(step, result));
      if (is_multiple(step, "train.evaluate_every") && step < steps_) progress.say(note_validation(trainer));
      if (is_multiple(step, "output.save_every") && step < steps_) save(trainer, output);
    }
    progress.finish();
    record_.steps_done = trainer.steps_done();
  }

  bool is_multiple(int64_t step, std::string_view key) const { return settings_.integer(key) > 0 && step % settings_.integer(key) == 0; }

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
    const Validation validation = validate(trainer, corpus_, settings_);
    for (auto& device : plan_.devices) device->reset_peak();
    const auto accuracy = validation.loss && validation.classification ? std::optional(validation.classification->top(1)) : std::nullopt;
    if (validation.loss) record_.validations.push_back({trainer.steps_done(), *validation.loss, accuracy});
    return fmt::format("validation after step {}: {}", trainer.steps_done(), describe(validation));
  }

  void save(const parallel::Trainer& trainer, parallel::OutputFolder& output) {
    saved_ = output.save(trainer, record_.config, files_of(corpus_), static_cast<int>(settings_.integer("output.keep")));
  }

  /// Saves first: what follows may take a while, and a second signal ends the program.
  void finish(parallel::Trainer& trainer, parallel::OutputFolder& output) {
    save(trainer, output);
    record_.weights_hash = trainer.weights_hash();
    record_.trace = trainer.trace();
    if (trainer.cuda_graphs().is_possible()) record_.cuda_graphs = trainer.cuda_graphs();
    for (size_t i = 0; i < plan_.devices.size(); ++i)
      record_.devices.push_back(
          {plan_.devices[i]->name(), record_.prediction.devices[i].peak_bytes, peaks_[i], plan_.devices[i]->budget_bytes()});
    if (caught_signal() == 0) {
      fmt::print(out_, "{}\n", note_validation(trainer));
      if (settings_.flag("train.baseline")) baseline();
    }
    tell();
    write_results(trainer);
  }

  void baseline() {
    record_.trigram_loss = trigram_loss(corpus_, settings_);
    if (!record_.trigram_loss) return;
    fmt::print(out_, "trigram model on the same split: loss {:.4f}, perplexity {:.2f}\n", *record_.trigram_loss,
               std::exp(*record_.trigram_loss));
  }

  void tell() const {
    for (const auto& device : record_.devices)
      fmt::print(out_, "{}: peak {} bytes ({}), predicted {}\n", device.name, device.peak_bytes, bytes_text(device.peak_bytes),
                 device.predicted_peak_bytes);
    fmt::print(out_, "bubble: {:.1f} %, predicted {:.1f} %\n", median_of_steps(record_, &parallel::StepResult::bubble) * 100,
               record_.prediction.bubble * 100);
    if (record_.cuda_graphs) fmt::print(out_, "CUDA graphs: {}\n", record_.cuda_graphs->text());
    fmt::print(out_, "weights {} saved in {}\n", record_.weights_hash, saved_.string());
    if (caught_signal() != 0) fmt::print(out_, "ended by a signal after step {}; --resume auto continues\n", record_.steps_done);
  }

  void write_results(parallel::Trainer& trainer) {
    constexpr int64_t kPictures = 32;
    const std::string report = arguments_.text("--report", settings_.text("output.report"));
    const std::string trace = arguments_.text("--trace", settings_.text("output.trace"));
    if (!report.empty() && corpus_.tokenizer && caught_signal() == 0) record_.sample = sample_text(trainer, *corpus_.tokenizer, settings_);
    if (!report.empty() && corpus_.images && caught_signal() == 0) record_.pictures = judge_pictures(trainer, corpus_.images, kPictures);
    if (!report.empty()) write_file(report, html_report(record_));
    if (!trace.empty()) write_file(trace, parallel::chrome_trace(record_.trace, parallel::topology_of(graph_), record_.prediction.trace));
    write_json(train_json(record_), arguments_.text("--json"));
  }

  Settings settings_;
  const Arguments& arguments_;
  std::FILE* out_;
  int64_t steps_;
  layers::Graph graph_;
  std::unique_ptr<Optimizer> optimizer_;
  parallel::Plan plan_;
  std::vector<DeviceSpeed> speeds_;   ///< by device
  std::optional<double> peak_flops_;  ///< of all devices together, in the precision of the products
  Corpus corpus_;
  std::vector<int64_t> peaks_;
  fs::path saved_;
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
