#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/config.h"
#include "parallel/replan.h"

/// From settings to the things that they describe.
/// Errors  UsageError naming the key and the cure.
namespace sluice::cli {

/// Whether the model of [model] takes images.
bool is_image_model(const Settings& settings);
/// Whether it gives each pixel a class: its targets are masks, those of the other image models are labels.
bool is_pixel_model(const Settings& settings);
bool is_translation_model(const Settings& settings);
/// Of the longest sample; 1 for images.
int64_t tokens_per_sample(const Settings& settings);
layers::Graph build_graph(const Settings& settings);
std::unique_ptr<Optimizer> build_optimizer(const Settings& settings);
/// Samples that any model of [model] takes, made up, to measure kernels on.
Batch synthetic_batch(Settings settings, int64_t samples);
/// Those of the whole job, of one process or of these ranks.
std::vector<DevicePtr> build_devices(const Settings& settings, parallel::Group* ranks = nullptr);
/// What [pipeline] leaves open and fixes. `optimizer` must outlive the options.
/// Errors  also DataError for a schedule file that cannot be read.
parallel::PlanOptions plan_options(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer);
/// The same with times of nodes, where they are measured on the devices.
parallel::PlanOptions plan_options_on(const std::vector<DevicePtr>& devices, const layers::Graph& graph, const Settings& settings,
                                      const Optimizer& optimizer);
/// `trials`: filled on the root where several layouts were weighed (PlanOptions::tried).
parallel::Plan build_plan(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer,
                          parallel::Group* ranks = nullptr, std::vector<parallel::ReplicaTrial>* trials = nullptr);
/// The same for evaluation alone: nothing is searched or measured.
parallel::Plan build_evaluation_plan(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer);
parallel::TrainerOptions build_trainer_options(const Settings& settings);
/// What holds the plan against the first steps, and moves it where pipeline.replan says so. A signal ends its planning with StoppedError.
parallel::Replanner build_replanner(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer,
                                    const std::vector<DeviceSpeed>& speeds);
Precision precision_of(const Settings& settings);

/// The peak of all devices together, in the precision of the products.
double peak_flops_of(const parallel::Plan& plan, const std::vector<DeviceSpeed>& speeds);

}  // namespace sluice::cli
