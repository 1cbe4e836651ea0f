// The report of a training: what a loop takes down for it, and the page that a program of its own writes.
#include "training/report/report.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/byte_units.h"
#include "core/file/file.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"
#include "tests/training/point_classifier.h"
#include "training/loop.h"
#include "training/report/charts.h"

namespace sluice::training {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

parallel::Trainer trainer_over_two_devices() {
  const layers::Graph graph = point_classifier();
  return {graph, parallel::plan(graph, devices("cpu:0,cpu:1"), {.batch = 16, .micro_batches = 2}), AdamW({.lr = 1e-2})};
}

/// The mean of the logits' squares: a metric that is no share.
double mean_square(const Tensor& output, const Batch&) {
  double sum = 0;
  for (const double logit : output.to_vector()) sum += logit * logit;
  return sum / static_cast<double>(output.elements());
}

TEST(Report, KnowsARunOfSkippedStepsFromOneThatDidNone) {
  TrainingRecord record;
  EXPECT_FALSE(record.has_run());
  EXPECT_FALSE(record.median_of_steps(&parallel::StepResult::seconds));
  record.skipped_steps = 1;
  EXPECT_TRUE(record.has_run());
  EXPECT_FALSE(record.median_of_steps(&parallel::StepResult::seconds)) << "of skipped steps";
}

TEST(Report, OfALoopShowsItsStepsEvaluationsDevicesAndConfig) {
  const TemporaryFolder folder;
  parallel::Trainer trainer = trainer_over_two_devices();
  TrainingRecord record;
  int64_t steps = 0;
  std::map<int64_t, Evaluation> evaluations;
  Loop loop(trainer, point_dataset(),
            {.steps = 20,
             .batch = 16,
             .evaluate_every = 5,
             .metrics = {{"accuracy", accuracy()}, {"mean square", mean_of(mean_square)}},
             .config = "layers = <2> & more",
             .record = &record});
  loop.on_step = [&](const Loop::Step&) { ++steps; };
  loop.on_evaluation = [&](int64_t step, const Evaluation& evaluation) { evaluations[step] = evaluation; };
  loop.run();
  EXPECT_EQ(steps, 20);
  ASSERT_EQ(evaluations.size(), 4U);

  write_report(folder.path() / "report.html", record, {{"My <words>", html_preformatted("a < b")}});
  const std::string page = read_file(folder.path() / "report.html");
  for (const char* part : {"<h2>Loss</h2>", "<h2>Accuracy</h2>", "<h2>Mean square</h2>", "<h2>Pipeline</h2>", "<polyline", ">forward",
                           "layers = &lt;2&gt; &amp; more", "<h2>My &lt;words&gt;</h2>", "a &lt; b", "ms counted", "samples/s"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_FALSE(has(page, "layers = <2>"));
  for (const auto& [step, evaluation] : evaluations) {
    char loss[64], share[64];
    std::snprintf(loss, sizeof loss, "validation at step %d: %.4f", static_cast<int>(step), *evaluation.loss);
    std::snprintf(share, sizeof share, "accuracy at step %d: %.2f %%", static_cast<int>(step), evaluation.metrics.at("accuracy") * 100);
    EXPECT_TRUE(has(page, loss)) << loss;
    EXPECT_TRUE(has(page, share)) << share;
  }
  EXPECT_TRUE(has(page, trainer.weights_hash()));
}

TEST(Report, ShowsThePeakOfEachDeviceAsItWasAndAsItWasPredicted) {
  parallel::Trainer trainer = trainer_over_two_devices();
  TrainingRecord record;
  Loop(trainer, point_dataset(), {.steps = 4, .batch = 16, .evaluate_every = 2, .record = &record}).run();
  ASSERT_EQ(record.devices.size(), 2U);
  const std::string page = html_report(record);
  for (const auto& device : record.devices) {
    EXPECT_GT(device.peak_bytes, 0);
    EXPECT_EQ(device.peak_bytes, device.predicted_peak_bytes) << "also beside evaluations, whose memory does not count";
    const std::string bytes = std::to_string(device.peak_bytes);
    EXPECT_TRUE(has(page, ">" + device.name + "</text>"));
    EXPECT_TRUE(has(page, "predicted " + bytes_text(device.peak_bytes) + " (" + bytes + " bytes)"));
    EXPECT_TRUE(has(page, "measured " + bytes_text(device.peak_bytes) + " (" + bytes + " bytes)"));
  }
}

TEST(Report, StepsOfAProgramOfItsOwnAreTakenDownByHand) {
  parallel::Trainer trainer = trainer_over_two_devices();
  TrainingRecord record;
  data::Loader loader(point_dataset(), {.batch = 16});
  for (int64_t step = 0; step < 3; ++step) {
    const Batch batch = loader.at(step);
    record.note_step(trainer, batch, trainer.step(batch));
  }
  record.note_end(trainer);
  EXPECT_EQ(record.steps.size(), 3U);
  EXPECT_EQ(record.batch, 16);
  EXPECT_TRUE(has(html_report(record), "<tr><td>steps</td><td>3</td></tr>"));
}

TEST(Report, ThatCannotBeWrittenSaysWhere) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "missing" / "report.html";
  expect_error<ResourceError>([&] { write_report(file, TrainingRecord()); }, {file.string()});
  const auto taken = folder.write("file", "");
  expect_error<ResourceError>([&] { write_report(taken / "report.html", TrainingRecord()); }, {(taken / "report.html").string()});
}

TEST(Report, RunWithoutStepsStillGivesAPage) { EXPECT_TRUE(has(html_report(TrainingRecord()), "No step was run")); }

TEST(Report, ChartsShowAllThatIsInThem) {
  TrainingRecord record;
  record.steps = {{31, {.loss = 4.16600}}};
  record.steps_done = 31;
  const std::string alone = loss_chart(record);
  EXPECT_TRUE(has(alone, "fill=\"#4c78a8\"></rect>")) << alone;
  EXPECT_EQ(alone.find(">31<"), alone.rfind(">31<")) << "one label of one step";
  EXPECT_EQ(alone.find(">4.17<"), alone.rfind(">4.17<")) << "one label of one loss";

  record.evaluations = {{30, 4.16603, {{"accuracy", 0.5}}}};  // which a resumed training makes up for before its first step
  record.shares = {"accuracy"};
  for (const std::string& chart : {loss_chart(record), metric_chart(record, "accuracy")}) {
    EXPECT_TRUE(has(chart, "<rect x=\"66.00\"")) << "at the left end of the axis\n" << chart;
    EXPECT_TRUE(has(chart, ">30<") && has(chart, ">31<")) << chart;
  }
}

TEST(Report, StepsHaveLabelsAtTheirPlaces) {
  TrainingRecord record;
  for (const int64_t number : {1, 2, 3}) record.steps.push_back({number, {.loss = 1.0 / static_cast<double>(number)}});
  record.steps_done = 3;
  const std::string chart = loss_chart(record);
  EXPECT_EQ(chart.find(">2<"), chart.rfind(">2<")) << chart;
  EXPECT_TRUE(has(chart, "<text x=\"505.00\" y=\"278.00\" text-anchor=\"middle\" font-size=\"12\">2<")) << chart;
}

TEST(Report, RunOfSkippedStepsAloneSaysSo) {
  TrainingRecord record;
  record.steps_done = record.skipped_steps = 2;
  EXPECT_TRUE(has(html_report(record), "All steps of this run were skipped"));
  EXPECT_FALSE(has(html_report(record), "No step was run"));
}

TEST(Report, NumbersThatAreNoneHaveNoSign) {
  TrainingRecord record;
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  record.steps = {{1, {.loss = 1}}};
  record.steps_done = 1;
  record.evaluations = {{1, nan, {{"accuracy", nan}, {"score", nan}}}};
  record.shares = {"accuracy"};
  EXPECT_FALSE(has(html_report(record), "-nan"));
}

TEST(Report, NumbersThatAreNotFiniteAreLeftOutOfCharts) {
  TrainingRecord record;
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double loss : {1.0, infinite, nan, 2.0})
    record.steps.push_back({static_cast<int64_t>(record.steps.size()) + 1, {.loss = loss}});
  record.evaluations = {{1, nan, {{"score", nan}}}, {2, 1.5, {{"score", 0.25}}}};
  record.skipped_steps = 7;
  record.item = "a<b";
  const std::string page = html_report(record);
  for (const char* part : {"\"nan", "\"inf", ",nan", ",inf", "\"-nan", ",-nan"}) EXPECT_FALSE(has(page, part)) << part;
  EXPECT_TRUE(has(page, "score at step 2: 0.25"));
  EXPECT_TRUE(has(page, "<td>7</td>")) << "skipped steps";
  EXPECT_FALSE(has(page, "a<b"));
  record.evaluations = {{2, -nan, {}}};
  EXPECT_TRUE(has(html_report(record), ">nan<"));
}

/// The chart of losses of steps 1, 2, ...
std::string chart_of(const std::vector<double>& losses) {
  TrainingRecord record;
  for (const double loss : losses) record.steps.push_back({++record.steps_done, {.loss = loss}});
  return loss_chart(record);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Report, MarksOfLossesThatHardlyDifferDiffer) {
  const std::string chart = chart_of({2.3026, 2.3021});
  for (const char* mark : {">2.3026<", ">2.3025<", ">2.3024<", ">2.3023<", ">2.3022<", ">2.3021<"}) EXPECT_TRUE(has(chart, mark)) << mark;
  EXPECT_EQ(count_of(chart_of({2.25, 2.25}), ">2.25<"), 1);
}

TEST(Report, LossesAsFarApartAsNumbersCanBeHavePlaces) {
  const std::string chart = chart_of({1e308, -1e308, 0});
  EXPECT_FALSE(has(chart, "nan") || has(chart, "inf")) << chart;
  EXPECT_TRUE(has(chart, "points=\"70.00,20.00 505.00,260.00 940.00,140.00 \"")) << chart;
}

TEST(TrainingRecord, KeepsSomeStepsOfALongTraining) {
  parallel::Trainer trainer = trainer_over_two_devices();
  Batch batch;
  batch.samples = 16;
  TrainingRecord record;
  for (int64_t step = 1; step <= 100'001; ++step) {
    trainer.set_steps_done(step);
    record.note_step(trainer, batch, {.loss = static_cast<double>(step), .peak_bytes = {1, 2}});
    ASSERT_LE(record.steps.size(), TrainingRecord::kMostSteps + 1);
    ASSERT_EQ(record.steps.back().number, step);
    ASSERT_EQ(record.steps.front().number, 1);
  }
  EXPECT_GE(record.steps.size(), TrainingRecord::kMostSteps / 2);
  const int64_t apart = record.steps[1].number - record.steps[0].number;
  for (size_t i = 1; i + 1 < record.steps.size(); ++i) EXPECT_EQ(record.steps[i].number - record.steps[i - 1].number, apart);
  EXPECT_TRUE(record.steps[1].result.peak_bytes.empty());
}

}  // namespace
}  // namespace sluice::training
