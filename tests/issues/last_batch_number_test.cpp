// A loader with threads never came back from the last step that an int64_t counts: it asked for those ahead, whose numbers ran over.
#include <gtest/gtest.h>

#include <cstdint>

#include "data/loader.h"
#include "data/synthetic.h"

namespace sluice::data {
namespace {

TEST(TheLastBatchNumber, GivesItsBatchForAnyNumberOfThreads) {
  const auto dataset = std::make_shared<SyntheticText>(SyntheticText::Options{.context = 3, .train_samples = 10});
  Loader plain(dataset, {.batch = 4, .seed = 3, .threads = 0});
  for (const int threads : {1, 3})
    for (const int ahead : {0, 1, 4}) {
      Loader loader(dataset, {.batch = 4, .seed = 3, .threads = threads, .ahead = ahead});
      for (const int64_t step : {INT64_MAX - 2, INT64_MAX - 1, INT64_MAX, int64_t{0}, INT64_MAX}) {
        SCOPED_TRACE(join("step ", step, ", ", threads, " threads, ", ahead, " ahead"));
        EXPECT_EQ(loader.at(step).load("tokens", 0, 4).to_vector(), plain.at(step).load("tokens", 0, 4).to_vector());
      }
    }
}

}  // namespace
}  // namespace sluice::data
