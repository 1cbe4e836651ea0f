#include "cli/report/json_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/config_words.h"
#include "cli/messages.h"
#include "core/file/file.h"
#include "training/metrics/bleu.h"
#include "training/metrics/chrf.h"

namespace sluice::cli {

namespace {

/// null where there is no value.
template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json remat_json(const layers::Graph& graph, const std::vector<bool>& rematerialize) {
  const auto count = std::count(rematerialize.begin(), rematerialize.end(), true);
  if (count == 0) return "none";
  if (count == static_cast<std::ptrdiff_t>(rematerialize.size())) return "full";
  Json names = Json::array();
  for (size_t node = 0; node < rematerialize.size(); ++node)
    if (rematerialize[node]) names.push_back(graph.nodes()[node].name);
  return names;
}

/// Times of a step of each kind are there when "auto" has measured them.
Json graphs_json(const parallel::GraphChoice& choice) {
  const auto milliseconds = [&](bool with_graphs) {
    return choice.seconds(with_graphs) > 0 ? Json(choice.seconds(with_graphs) * 1e3) : Json(nullptr);
  };
  return {{"used", choice.next()}, {"step_ms", {{"with", milliseconds(true)}, {"without", milliseconds(false)}}}};
}

/// What passed between ranks in the last step.
Json between_ranks_json(const RunRecord& record) {
  if (!record.has_ranks || record.steps.empty()) return nullptr;
  const auto& last = record.steps.back().result;
  return {{"step_bytes", last.bytes_between_ranks}, {"planned_step_bytes", last.planned_bytes_between_ranks}};
}

Json measured_json(const RunRecord& record) { return record.measured_seconds ? Json(*record.measured_seconds * 1e3) : Json(nullptr); }

Json move_json(const RunRecord::Move& move, int64_t step) {
  return {{"step", step},
          {"from", move.from},
          {"to", move.to},
          {"predicted_ms", {{"before", move.seconds_before * 1e3}, {"after", move.seconds_after * 1e3}}}};
}

}  // namespace

Json train_json(const RunRecord& record) {
  const auto step_seconds = record.median_of_steps(&parallel::StepResult::seconds),
             bubble = record.median_of_steps(&parallel::StepResult::bubble);
  const bool ran = !record.steps.empty();
  const auto baseline = record.baselines.find(kTrigram);
  Json json;
  json["parameters"] = record.parameters;
  json["steps"] = record.steps_done;
  json["skipped_steps"] = record.skipped_steps;
  json["loss"] = {{"first", ran ? Json(record.steps.front().result.loss) : Json(nullptr)},
                  {"last", ran ? Json(record.steps.back().result.loss) : Json(nullptr)},
                  {"validation", record.evaluations.empty() ? Json(nullptr) : Json(record.evaluations.back().loss)},
                  {"trigram", baseline != record.baselines.end() ? Json(baseline->second) : Json(nullptr)}};
  json["accuracy"] = optional_json(record.last_metric("accuracy"));
  json["weights_hash"] = record.weights_hash;
  json["step_ms"] = {{"median", step_seconds ? Json(*step_seconds * 1e3) : Json(nullptr)},
                     {"predicted", {{"counted", record.counted_seconds * 1e3}, {"measured", measured_json(record)}}}};
  json["replan"] = record.move ? move_json(*record.move, record.moved_at) : Json(nullptr);
  json[record.item + "s_per_second"] = step_seconds ? Json(static_cast<double>(record.items_per_step) / *step_seconds) : Json(nullptr);
  json["bubble"] = {{"predicted", record.prediction.bubble}, {"measured", optional_json(bubble)}};
  json["between_ranks"] = between_ranks_json(record);
  json["cuda_graphs"] = record.cuda_graphs ? graphs_json(*record.cuda_graphs) : Json(nullptr);
  json["devices"] = Json::array();
  for (const auto& device : record.devices)
    json["devices"].push_back({{"name", device.name},
                               {"peak_bytes", record.has_run() ? Json(device.peak_bytes) : Json(nullptr)},
                               {"predicted_peak_bytes", device.predicted_peak_bytes},
                               {"budget_bytes", optional_json(training::limited(device.budget_bytes))}});
  return json;
}

Json model_json(const layers::Graph& graph) {
  Json json;
  json["parameters"] = graph.parameter_count();
  json["nodes"] = Json::array();
  for (size_t node = 0; node < graph.nodes().size(); ++node)
    json["nodes"].push_back({{"name", graph.nodes()[node].name}, {"parameters", graph.parameter_count(static_cast<int>(node))}});
  return json;
}

namespace {

Json trial_json(const parallel::ReplicaTrial& trial) {
  return {{"replicas", trial.replicas},
          {"devices_of_replica", trial.devices_of_replica},
          {"replica_devices", name_of(trial.replica_devices)},
          {"fits", trial.is_bound ? Json(nullptr) : Json(trial.fits)},
          {"step_seconds", trial.step_seconds},
          {"is_bound", trial.is_bound},
          {"bubble", trial.is_bound ? Json(nullptr) : Json(trial.bubble)},
          {"peak_bytes", trial.is_bound ? Json(nullptr) : Json(trial.peak_bytes)},
          {"obstacle", in_config_words(trial.obstacle)}};
}

}  // namespace

bool is_searched_by_other_speeds(const parallel::Plan& plan) { return plan.devices[0]->kind() == DeviceKind::cpu && plan.times.empty(); }

Json plan_json(const layers::Graph& graph, const parallel::Plan& plan, const parallel::Prediction& prediction,
               const std::vector<parallel::ReplicaTrial>& trials) {
  Json json = model_json(graph);
  json["fits"] = prediction.fits;
  json["reason"] = in_config_words(prediction.reason);
  json["partition"] = plan.partition.stage_sizes();
  json["segments"] = plan.partition.has_whole_stages() ? std::vector<int>{} : plan.partition.segments_of_stage();
  json["micro_batches"] = plan.micro_batches;
  json["replicas"] = plan.replication.replicas;
  json["replica_devices"] = name_of(plan.replica_devices);
  json["fold_blocks"] = plan.replication.fold_blocks;
  json["shard_optimizer"] = plan.replication.shards_optimizer;
  json["replica_trials"] = Json::array();
  for (const auto& trial : trials) json["replica_trials"].push_back(trial_json(trial));
  json["schedule"] = name_of(plan.schedule);
  json["transfer_window"] = {{"ahead", plan.window.ahead}, {"behind", plan.window.behind}};
  json["bound_seconds"] = plan.bound_seconds > 0 && !is_searched_by_other_speeds(plan) ? Json(plan.bound_seconds) : Json(nullptr);
  json["is_exact"] = plan.is_exact;
  json["is_out_of_time"] = plan.is_out_of_time;
  json["remat"] = remat_json(graph, plan.rematerialize);
  json["step_seconds"] = prediction.step_seconds;
  json["bubble"] = prediction.bubble;
  json["devices"] = Json::array();
  for (const auto& device : prediction.devices)
    json["devices"].push_back({{"name", device.name},
                               {"parameter_bytes", device.parameter_bytes},
                               {"gradient_bytes", device.gradient_bytes},
                               {"optimizer_bytes", device.optimizer_bytes},
                               {"activation_peak_bytes", device.activation_peak_bytes},
                               {"peak_bytes", device.peak_bytes},
                               {"sent_bytes", device.sent_bytes},
                               {"budget_bytes", optional_json(training::limited(device.budget_bytes))}});
  return json;
}

Json translation_json(const TranslationScores& scores) {
  const auto scores_of = [](const DirectionScores& of) {
    return Json{
        {"pairs", of.pairs}, {"bleu", of.bleu}, {"chrf", of.chrf}, {"copy_chrf", of.copy_chrf}, {"neighbour_chrf", of.neighbour_chrf}};
  };
  Json json = {{"mean", scores.directions.empty() ? Json(nullptr) : scores_of(scores.mean())},
               {"directions", Json::object()},
               {"examples", Json::array()},
               {"above_both_baselines", scores.above_both()},
               {"bleu_signature", training::corpus_bleu_signature()},
               {"chrf_signature", training::chrf_signature()}};
  for (const auto& direction : scores.directions) json["directions"][direction.from + "-" + direction.to] = scores_of(direction);
  for (const auto& example : scores.examples)
    json["examples"].push_back({{"from", example.from},
                                {"to", example.to},
                                {"source", example.source},
                                {"translation", example.translation},
                                {"reference", example.reference}});
  return json;
}

void write_json(const Json& json, const std::string& target) {
  // Names from files may hold any bytes.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (target == "-") {
    fmt::print("{}", text);
    flush_result();
  }
  if (!target.empty() && target != "-") replace_file(target, text);
}

}  // namespace sluice::cli
