#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_record.h"
#include "layers/graph.h"

namespace sluice::cli {

using Json = nlohmann::ordered_json;

/// The results of the commands under the names that every reader may rely on.
Json train_json(const RunRecord& record);
Json model_json(const layers::Graph& graph);
/// Whether the plan was searched by nominal speeds of CPU devices, and is predicted by measured ones.
bool is_searched_by_other_speeds(const parallel::Plan& plan);
/// `trials`: where the number of replicas was open.
Json plan_json(const layers::Graph& graph, const parallel::Plan& plan, const parallel::Prediction& prediction,
               const std::vector<parallel::ReplicaTrial>& trials = {});
Json translation_json(const TranslationScores& scores);

/// Writes to a file, or to standard output for "-"; does nothing for "". Errors  ResourceError.
void write_json(const Json& json, const std::string& target);

}  // namespace sluice::cli
