#include "parallel/program/program_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "tests/expect_error.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/mutations.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

/// As a counting run leaves it, with numbers of any size.
Program counted(Program program) {
  for (auto& actions : program.devices)
    for (Action& action : actions) {
      action.peak_bytes = int64_t{pick(0, 1 << 30)} << pick(0, 33);
      action.live_bytes = pick(0, 1000);
    }
  program.is_counted = true;
  return program;
}

/// Any of random_plan(), at times counted, at times damaged so that nobody would run it.
Program random_program() {
  Program program = random_plan().lowered();
  if (pick(0, 2) == 0) program = counted(std::move(program));
  const auto mutations = random_mutations();
  if (pick(0, 2) == 0) mutations[pick(0, static_cast<int>(mutations.size()))].second(program);
  return program;
}

Program small_program() { return skip_plan({2, 3}, "1f1b", 2, {true, false, true, false, false}).lowered(); }

/// Bytes are refused with a DataError, or are a program that has just these bytes.
void require_program_or_error(const std::string& bytes) {
  try {
    RC_ASSERT(encode(decode_program(bytes)) == bytes);
  } catch (const DataError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("program: needs "));
  }
}

RC_GTEST_PROP(ProgramCodec, GivesEveryProgramBack, ()) {
  const Program program = random_program();
  const std::string bytes = encode(program);
  RC_ASSERT(decode_program(bytes) == program);
  RC_ASSERT(encode(Program(program)) == bytes);
}

RC_GTEST_PROP(ProgramCodec, RefusesWhatIsCutShortOrGoesOn, ()) {
  const std::string bytes = encode(random_program());
  const auto cut = static_cast<size_t>(pick(0, static_cast<int>(bytes.size())));
  RC_ASSERT_THROWS_AS(decode_program(bytes.substr(0, cut)), DataError);
  RC_ASSERT_THROWS_AS(decode_program(bytes + static_cast<char>(pick(0, 256))), DataError);
}

RC_GTEST_PROP(ProgramCodec, TakesDamagedBytesForWhatTheySayOrRefusesThem, ()) {
  std::string bytes = encode(random_program());
  for (int flips = pick(1, 4); flips-- > 0;)
    bytes[static_cast<size_t>(pick(0, static_cast<int>(bytes.size())))] ^= static_cast<char>(1 << pick(0, 8));
  require_program_or_error(bytes);
}

RC_GTEST_PROP(ProgramCodec, TakesAnyBytesBehindItsHeadForWhatTheySayOrRefusesThem, ()) {
  std::string bytes = encode(small_program()).substr(0, static_cast<size_t>(pick(5, 40)));
  for (int more = pick(0, 60); more-- > 0;) bytes += static_cast<char>(pick(0, pick(0, 2) == 0 ? 8 : 256));
  require_program_or_error(bytes);
}

TEST(ProgramCodec, RefusesEveryShorterPiece) {
  const std::string bytes = encode(small_program());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_program(std::string_view(bytes).substr(0, size)), DataError) << size << " bytes";
}

TEST(ProgramCodec, TakesEveryChangedBitForWhatItSaysOrRefusesIt) {
  const std::string bytes = encode(small_program());
  for (size_t place = 0; place < bytes.size(); ++place)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[place] = static_cast<char>(changed[place] ^ 1 << bit);
      try {
        EXPECT_EQ(encode(decode_program(changed)), changed);
      } catch (const DataError&) {
      }
    }
}

TEST(ProgramCodec, HasTheSameBytesForEver) {
  Program program;
  program.schedule = "own";
  program.partition.sizes = {1, 64};
  program.micro_batches = 3;
  program.device_of_stage = {0, 0};
  program.rematerialize = {true, false, true};
  Action action{};
  action.kind = ActionKind::step;
  action.frees = {{Buffer::Kind::tape, 1, 2}};
  action.bytes = -300;
  program.devices = {{action}};
  constexpr char kBytes[] =
      "SlPr\x04\x06own\x04\x02\x80\x01\x02\x02\x02\x06\x02\x04\x00\x00\x06\x05\x00\x02\x02"
      "\x1e\x01\x01\x00\x01\x01\x01\x01\x02\x02\x02\x04\x01\x01\xd7\x04\x00\x00";
  const std::string wanted(kBytes, sizeof kBytes - 1);
  EXPECT_EQ(encode(program), wanted) << "change kProgramVersion with the format";
  EXPECT_EQ(decode_program(wanted), program);
}

TEST(ProgramCodec, KeepsTheLargestNumbers) {
  Program program;
  program.partition.sizes = {std::numeric_limits<int>::min(), std::numeric_limits<int>::max()};
  Action action{};
  action.kind = ActionKind::forward;
  action.bytes = std::numeric_limits<int64_t>::min();
  action.peak_bytes = std::numeric_limits<int64_t>::max();
  program.devices = {{}, {action}};
  EXPECT_EQ(decode_program(encode(program)), program);
}

TEST(ProgramCodec, NamesTheByteAndTheCure) {
  const std::string bytes = encode(small_program());
  expect_error<DataError>([&] { decode_program(""); }, {"'SlPr' at byte 0 of 0", "install the same build"});
  expect_error<DataError>([&] { decode_program("SlPr\x02"); }, {"needs format 2 at byte 4 of 5", "got format 1"});
  expect_error<DataError>([&] { decode_program(bytes.substr(0, 7)); }, {"a number of items", "byte 5 of 7"});
  expect_error<DataError>([&] { decode_program(bytes + "x"); }, {"needs the end", "got 1 bytes more"});
  std::string wrong = bytes;
  wrong[5] = '\x7f';  // a name of -64 letters
  expect_error<DataError>([&] { decode_program(wrong); }, {"at byte 5", "got -64"});
}

TEST(ProgramCodec, TakesNoMoreMemoryThanTheBytesJustify) {
  const std::string most = "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";  // 2^63 - 1
  expect_error<DataError>([&] { decode_program("SlPr\x04" + most); }, {"the 0 bytes behind it can hold", "9223372036854775807"});
  const std::string empty_name(1, '\0'), no_stages(7, '\0');
  expect_error<DataError>([&] { decode_program("SlPr\x04" + empty_name + most); }, {"number of items"});
  expect_error<DataError>([&] { decode_program("SlPr\x04" + empty_name + no_stages + most); }, {"number of flags"});
}

}  // namespace
}  // namespace sluice::parallel
