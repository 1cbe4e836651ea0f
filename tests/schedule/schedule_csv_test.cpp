#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.h"
#include "parallel/schedule/csv.h"
#include "parallel/schedule/named.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

Schedule read(std::string_view text) { return parse_schedule_csv(text, "mine.csv"); }

std::string refusal(std::string_view text) {
  try {
    read(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(ScheduleCsv, WritesOneRowADeviceAndOneCellAnAction) {
  EXPECT_EQ(schedule_csv(make_schedule(NamedSchedule::one_f_one_b, 2, 2)), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(schedule_csv(make_schedule(NamedSchedule::zb_h1, 1, 1)), "0F0,0I0,0W0\n");
}

RC_GTEST_PROP(ScheduleCsv, ReadsWhatItWrote, ()) {
  const Schedule schedule = random_schedule(pick(1, 9));
  for (const auto& order : schedule.devices)
    if (order.empty()) return;  // such a device has no row
  const Schedule again = read(schedule_csv(schedule));
  RC_ASSERT(again.devices == schedule.devices);
  RC_ASSERT(again.device_of_stage == schedule.device_of_stage);
  RC_ASSERT(again.micro_batches == schedule.micro_batches);
  RC_ASSERT(again.name == "mine.csv");
}

TEST(ScheduleCsv, TakesBlanksEmptyCellsByteOrderMarkAndCarriageReturns) {
  const Schedule schedule = read("\xEF\xBB\xBF 0F0 ,,0F1,\t0B0,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n\r\n");
  EXPECT_EQ(schedule_csv(schedule), schedule_csv(make_schedule(NamedSchedule::one_f_one_b, 2, 2)));
}

TEST(ScheduleCsv, StagesFollowFromTheRows) {
  EXPECT_EQ(read("0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0").device_of_stage, (std::vector<int>{0, 1, 1, 0}));
}

TEST(ScheduleCsv, ForwardsAloneAreAScheduleOfEvaluation) { EXPECT_EQ(read("0F0,0F1\n").micro_batches, 2); }

TEST(ScheduleCsv, MixesWholeAndSplitBackwards) { EXPECT_EQ(read("0F0,0F1,0I0,0W0,0B1").devices[0].size(), 5u); }

TEST(ScheduleCsv, RefusesAnEmptyFile) {
  const std::string wanted = "mine.csv: needs one row a device with actions as 0F0 (stage, F, B, I or W, micro-batch), got an empty file";
  EXPECT_EQ(refusal(""), wanted);
  EXPECT_EQ(refusal(" \r\n\n"), wanted);
  EXPECT_EQ(refusal("\xEF\xBB\xBF"), wanted);
}

TEST(ScheduleCsv, NamesFileRowCellAndCure) {
  EXPECT_EQ(
      refusal("0F0,0B0\n1F0,1X0"),
      "mine.csv: row 2, cell 2: needs F, B, I or W behind the stage, got '1X0'; write stage, action and micro-batch as in 0F3, and leave "
      "out transfers, which follow from the model");
  EXPECT_EQ(
      refusal("0F0,0SEND_F0"),
      "mine.csv: row 1, cell 2: needs F, B, I or W behind the stage, got '0SEND_F0'; write stage, action and micro-batch as in 0F3, and "
      "leave out transfers, which follow from the model");
  EXPECT_EQ(refusal("0F0,,nonsense"),
            "mine.csv: row 1, cell 3: needs an action as 0F3 (stage, F, B, I or W, micro-batch), got 'nonsense'; write it so");
  EXPECT_EQ(refusal("0F0,0F0 0B0"),
            "mine.csv: row 1, cell 2: needs nothing behind the micro-batch, got '0F0 0B0'; separate actions by commas");
}

TEST(ScheduleCsv, RefusesNegativeAndHugeNumbers) {
  EXPECT_EQ(refusal("-1F0"), "mine.csv: row 1, cell 1: needs numbers from 0 on, got '-1F0'; stages and micro-batches are counted from 0");
  EXPECT_EQ(refusal("0F-1"), "mine.csv: row 1, cell 1: needs numbers from 0 on, got '0F-1'; stages and micro-batches are counted from 0");
  EXPECT_EQ(refusal("99999999999999999999F0"),
            "mine.csv: row 1, cell 1: needs numbers of at most 7 digits, got '99999999999999999999...'; count from 0 without gaps");
  EXPECT_EQ(refusal("9999999F0"), "mine.csv: needs all stages from 0 to 9999999, got none numbered 0; number the stages without gaps");
  EXPECT_EQ(refusal("0F9999999"), "mine.csv: row 1: needs 0F0, as stage 0 runs all micro-batches from 0 to 9999999; add the cell");
}

TEST(ScheduleCsv, RefusesAStageOnTwoDevicesAndStagesThatAreLeftOut) {
  EXPECT_EQ(refusal("0F0,0B0\n1F0,1B0,0F1,0B1"),
            "mine.csv: row 2, cell 3: '0F1' puts stage 0 on a second device, it is in row 1 already; a stage runs on one device: move the "
            "cell there");
  EXPECT_EQ(refusal("0F0,0B0\n2F0,2B0"), "mine.csv: needs all stages from 0 to 2, got none numbered 1; number the stages without gaps");
  EXPECT_EQ(refusal("0F0\n\n1F0"),
            "mine.csv: row 2: needs at least one action, got an empty row; each row is a device: remove it or give it a stage");
}

TEST(ScheduleCsv, RefusesActionsThatAreMissingTwiceOrInAnotherOrder) {
  EXPECT_EQ(refusal("0F0,0F0"), "mine.csv: row 1, cell 2: '0F0' stands in cell 1 already; remove one of them");
  EXPECT_EQ(refusal("0F0,0B0,0F1"), "mine.csv: row 1: needs 0B1, as stage 0 runs all micro-batches from 0 to 1; add the cell");
  EXPECT_EQ(refusal("0B0,0F0"), "mine.csv: row 1, cell 1: needs 0F0 in front of 0B0; it stands behind: swap them");
  EXPECT_EQ(refusal("0B0"), "mine.csv: row 1, cell 1: needs 0F0 in front of 0B0, which is missing: add it");
  EXPECT_EQ(refusal("0F0,0I0"), "mine.csv: row 1, cell 2: needs 0W0 behind 0I0: add it, or write 0B0 for both");
  EXPECT_EQ(refusal("0F0,0W0"), "mine.csv: row 1, cell 2: needs 0I0 in front of 0W0, which is missing: add it");
  EXPECT_EQ(refusal("0F0,0B0,0I0,0W0"), "mine.csv: row 1, cell 3: got both 0B0 and 0I0; remove B, which is I and W in one");
  EXPECT_EQ(
      refusal("0F0,0F1,0B1,0B0"),
      "mine.csv: row 1, cell 3: needs 0B1 behind the backward of micro-batch 0, which is in cell 4; gradients of a stage accumulate in the "
      "order 0, 1, 2, ...: swap them");
}

RC_GTEST_PROP(ScheduleCsv, AnyTextIsReadOrRefused, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0123FBIW,,,\n\r -x\xEF\xBB\xBF")));
  try {
    const Schedule schedule = read(text);
    RC_ASSERT(schedule.stage_count() >= 1);
    RC_ASSERT(schedule.micro_batches >= 1);
  } catch (const UsageError&) {
  }
}

RC_GTEST_PROP(ScheduleCsv, ATableWithOneCharacterChangedIsReadOrRefused, ()) {
  std::string text = schedule_csv(make_schedule(NamedSchedule::zb_v, pick(1, 4), pick(1, 6)));
  text[pick(0, static_cast<int>(text.size()))] = static_cast<char>(pick(0, 256));
  try {
    const Schedule schedule = read(text);
    RC_ASSERT(schedule.stage_count() >= 1);
  } catch (const UsageError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("mine.csv: "));
  }
}

}  // namespace
}  // namespace sluice::parallel
