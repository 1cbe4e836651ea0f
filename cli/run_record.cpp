#include "cli/run_record.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/list_text.h"

namespace sluice::cli {

namespace {

/// The predicted peaks of a run are those of whichever of its plans needs more.
void take_prediction(RunRecord& record, parallel::Prediction prediction) {
  for (size_t i = 0; i < prediction.devices.size(); ++i)
    prediction.devices[i].peak_bytes = std::max(prediction.devices[i].peak_bytes, record.prediction.devices[i].peak_bytes);
  record.prediction = std::move(prediction);
  record.measured_seconds = record.prediction.step_seconds;
}

std::string what_moved(const RunRecord::Move& move) {
  const std::string to = list_text(move.to, "+") + " nodes a stage";
  if (move.from == move.to) return "keeps " + to + " and changes their order of work, recomputation or transfer window";
  return "moves from " + list_text(move.from, "+") + " to " + to;
}

}  // namespace

std::string note_finding(const parallel::Replanner::Finding& finding, const parallel::Trainer& trainer, RunRecord& record) {
  take_prediction(record, finding.prediction);
  if (!finding.was_searched) return "";
  const std::string begin = fmt::format("replan: after step {} the plan ", trainer.steps_done());
  if (!finding.next)
    return begin + fmt::format("stays: by measured times none that fits is {:.0f} % faster", parallel::Replanner::kWorthMoving * 100);
  take_prediction(record, *finding.next);
  const double before = finding.prediction.step_seconds, after = finding.next->step_seconds;
  record.moved_at = trainer.steps_done();
  const auto& move = record.move.emplace(finding.stage_sizes, trainer.plan().partition.stage_sizes(), before, after);
  return begin + what_moved(move) +
         fmt::format(": a step takes {:.2f} ms instead of {:.2f} ms, predicted by measured times", after * 1e3, before * 1e3);
}

}  // namespace sluice::cli
