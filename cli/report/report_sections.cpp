#include "cli/report/report_sections.h"

#include "cli/report/attention_plot.h"

namespace sluice::cli {

std::vector<training::ReportSection> report_sections(const RunRecord& record) {
  using training::html_preformatted, training::html_table;
  std::vector<training::ReportSection> sections;
  if (!record.images.empty()) sections.push_back({"Validation images and predictions", image_table(record.images)});
  if (!record.sample.empty()) sections.push_back({"A sample of text", html_preformatted(record.sample)});
  if (record.translation)
    sections.push_back(
        {"Translations of held-out pairs", html_table(record.translation->rows()) + html_preformatted(record.translation->notes())});
  if (record.attention) sections.push_back({"An attention", html_attention(*record.attention)});
  return sections;
}

}  // namespace sluice::cli
