#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/byte_size.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report/report_sections.h"
#include "cli/run_record.h"
#include "core/byte_units.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "training/report/svg.h"

namespace sluice::cli {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ByteSize, TextsBecomeBytesAndBack) {
  EXPECT_EQ(parse_bytes("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1.5 MB"), 1'500'000);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  for (const char* bad : {"", "GiB", "8XB", "1.2.3GB", "-1", "99999999999GiB"}) EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  EXPECT_EQ(bytes_text(int64_t{8} << 30), "8.00 GiB");
  EXPECT_EQ(bytes_text(100), "100 B");
}

TEST(Help, EveryKeyIsInHelpManPageAndCompletion) {
  for (const Option& option : options()) {
    const std::string name(option.name), key = name.substr(name.find('.') + 1);
    EXPECT_TRUE(has(config_help(), "\n  " + key)) << name;
    EXPECT_TRUE(has(man_page(), "\n.B " + key + "\n")) << name;
    for (const char* shell : {"bash", "zsh", "fish"}) EXPECT_TRUE(has(completion(shell), name + "=")) << name;
  }
}

/// Another order of the same stages was told as a move "from 2 to 2 nodes a stage".
TEST(RunRecord, SaysOfAnotherPlanWhetherItsCutMoved) {
  layers::Graph graph;
  const auto x = graph.input("x", {3}), label = graph.input("label", {}, DType::i32);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("logits", layers::Linear(3, 3), x), label}));
  const parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 4}), SGD({.lr = 1}));
  parallel::Replanner::Finding finding{{}, {2}, parallel::Prediction{}, true};
  RunRecord record;
  EXPECT_TRUE(has(note_finding(finding, trainer, record), "the plan keeps 2 nodes a stage and changes their order of work"));
  finding.stage_sizes = {1, 1};
  EXPECT_TRUE(has(note_finding(finding, trainer, record), "the plan moves from 1+1 to 2 nodes a stage: a step takes"));
}

TEST(Progress, LinesThatAreNoTerminalHaveNoEscapes) {
  char* text = nullptr;
  size_t length = 0;
  std::FILE* out = open_memstream(&text, &length);
  Console console(out);
  ProgressLine line(console, 0, 1000);
  for (int64_t step = 1; step <= 1000; ++step) {
    Progress progress;
    progress.step = step, progress.steps = 1000, progress.budget_bytes = kUnlimited;
    line.show(progress);
  }
  line.finish();
  std::fclose(out);
  const std::string shown(text, length);
  std::free(text);
  EXPECT_TRUE(has(shown, "step 1/1000"));
  EXPECT_TRUE(has(shown, "step 1000/1000"));
  EXPECT_FALSE(has(shown, "\033"));
  EXPECT_FALSE(has(shown, "\r"));
  EXPECT_LE(std::count(shown.begin(), shown.end(), '\n'), 110);
}

TEST(Progress, DurationsHaveHoursOnlyWhenNeeded) {
  EXPECT_EQ(duration_text(62), "1:02");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

RunRecord record_of_two_steps() {
  RunRecord record;
  record.config = "<config>";
  record.steps_done = 2;
  for (int64_t step = 1; step <= 2; ++step) record.steps.push_back({step, {.loss = 3.0 - static_cast<double>(step), .seconds = 0.5}});
  record.evaluations.push_back({2, 1.25, {}});
  record.baselines[kTrigram] = 1.5;
  record.devices.push_back({"cpu:0", 1000, 1000, 2000});
  record.trace.device_names = {"cpu:0"};
  record.trace.seconds = 1;
  parallel::TraceEvent event;
  event.action.kind = parallel::ActionKind::forward;
  event.action.stage = 0;
  event.action.micro_batch = 7;
  event.end = 0.5;
  record.trace.events.push_back(event);
  return record;
}

/// The page that `sluice train` writes.
std::string page_of(const RunRecord& record) { return training::html_report(record, report_sections(record)); }

TEST(Report, ShowsLossBaselineTimelineMemoryAndConfig) {
  const std::string page = page_of(record_of_two_steps());
  for (const char* part : {"<polyline", "trigram baseline 1.5000", "validation 1.2500", ">7</text>", "bubble 50.0 %", "predicted 1000 B",
                           "budget", "&lt;config&gt;"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_FALSE(has(page, "http://") && !has(page, "http://www.w3.org/2000/svg"));
}

TranslationScores two_directions() {
  TranslationScores scores;
  scores.directions = {{"en", "de", 10, 12.5, 50.25, 20, 30}, {"en", "<fr>", 20, 0, 10, 60.125, 5}};
  scores.examples = {{"en", "de", "a & b", "a und b", "a\xff"}};
  return scores;
}

/// Cells of a table's row in HTML.
std::string html_cells(const std::vector<std::string>& row, const std::string& cell) {
  std::string html = "<tr>";
  for (const auto& text : row) html += "<" + cell + ">" + training::xml_text(text) + "</" + cell + ">";
  return html + "</tr>";
}

TEST(Report, ShowsTheTableOfTranslationsThatEvalPrints) {
  RunRecord record = record_of_two_steps();
  EXPECT_FALSE(has(page_of(record), "held-out pairs"));
  record.translation = two_directions();
  const std::string page = page_of(record), printed = record.translation->table();
  const auto rows = record.translation->rows();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows.back(), (std::vector<std::string>{"mean", "30", "6.25", "30.12", "40.06", "17.50"}));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(has(page, html_cells(rows[i], i == 0 ? "th" : "td"))) << rows[i][0];
    for (const auto& cell : rows[i]) EXPECT_TRUE(has(printed, cell)) << cell;
  }
  for (const char* part : {"en - &lt;fr&gt;", "in 1 of 2 directions", "en - de: a &amp; b", "translation: a\xef\xbf\xbd", "tok:13a"})
    EXPECT_TRUE(has(page, part)) << part;
  record.translation = TranslationScores();  // nothing is held out: no mean of nothing
  EXPECT_EQ(record.translation->rows().size(), 1U);
  EXPECT_TRUE(has(page_of(record), "in 0 of 0 directions"));
}

TEST(Report, ShowsAnAttentionWithItsTokens) {
  RunRecord record = record_of_two_steps();
  EXPECT_FALSE(has(page_of(record), "An attention"));
  record.attention = {"of \"<layer>\"", {"\xe2\x96\x81rot", "</s>"}, {"<de>", "a&b", "\xff"}, {0.5, 0.25, 0.25, 0, 0.125, 0.875}};
  const std::string page = page_of(record);
  for (const char* part :
       {"of &quot;&lt;layer&gt;&quot;", ">\xe2\x96\x81rot</text>", ">&lt;/s&gt;</text>", "rotate(-45)\" font-size=\"12\">a&amp;b</text>",
        ">\xef\xbf\xbd</text>", "fill=\"#ffffff\"><title>&lt;/s&gt; looks at &lt;de&gt;: 0.000<",
        "fill=\"#08306b\"><title>&lt;/s&gt; looks at \xef\xbf\xbd: 0.875<", ">0.88</text>", ">weight</text>"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_FALSE(has(page, "\xff"));
  record.attention = {"", {"a"}, {"b", "c"}, {0, 0}};  // weights of nothing but zeros divide nothing
  EXPECT_FALSE(has(page_of(record), "nan"));
}

TEST(Report, ShowsAccuracyAndImagesOfAnImageModel) {
  RunRecord record = record_of_two_steps();
  record.evaluations = {{1, 1.5, {{"accuracy", 0.5}}}, {2, 1.25, {{"accuracy", 0.875}}}};
  EXPECT_TRUE(has(page_of(record), "accuracy at step 2: 87.50 %"));
  record.images = {{{1, 2, 1, {1, 2}}, "<bag>", "boot"}, {{1, 1, 3, {1, 2, 3}}, "boot", "boot"}};
  const std::string page = page_of(record);
  // Headers of 54 bytes and one row: two grey pixels in 8 bytes, one of blue 3, green 2, red 1 in 4.
  for (const char* part :
       {"base64,Qk0+AAAA", "AQEBAgICAAA=\"", "base64,Qk06AAAA", "AwIBAA==\"", "boot, is &lt;bag&gt;", "<figcaption>boot</figcaption>"})
    EXPECT_TRUE(has(page, part)) << part;
}

}  // namespace
}  // namespace sluice::cli
