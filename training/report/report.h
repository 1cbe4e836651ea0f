#pragma once
#include <string>
#include <vector>

#include "training/report/html_page.h"
#include "training/report/training_record.h"

namespace sluice::training {

/// What a caller adds to a report; html_page.h has the pieces of its HTML.
struct ReportSection {
  std::string title;  ///< text
  std::string html;
};

/// One HTML page that needs nothing else: the record's numbers, loss and metrics by step, the pipeline's timeline of the last step below the
/// predicted one, memory over time and by device, what the caller adds, the config.
///   training::TrainingRecord record;
///   training::Loop(trainer, dataset, {.steps = 1000, .batch = 64, .record = &record}).run();
///   training::write_report("report.html", record);
std::string html_report(const TrainingRecord& record, const std::vector<ReportSection>& sections = {});

/// Writes that page to a file, over one that is there.
/// Errors  ResourceError naming the file when it cannot be written.
void write_report(const std::string& file, const TrainingRecord& record, const std::vector<ReportSection>& sections = {});

}  // namespace sluice::training
