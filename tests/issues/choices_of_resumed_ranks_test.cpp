// Of several ranks that continue a training, only the root was told which algorithms its GPUs had taken: the others tried all of them anew.
#include <gtest/gtest.h>

#include "cli/continued.h"
#include "parallel/group/thread_group.h"
#include "tests/edited_state.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

TEST(ChoicesOfResumedRanks, AreThoseOfTheCheckpointOnEveryRank) {
  const TemporaryFolder folder;
  const auto graph = sluice::testing::skip_graph();
  const Trainer trainer(graph, plan(graph, devices("cpu:0"), {.batch = 6}), SGD({}));
  const std::string saved = OutputFolder(folder.path() / "run").save(trainer, "", {}, 1);
  const GpuChoices choices = {{"cublas", "3"}, {"cudnn", "7"}};
  edit_state(saved, [&](nlohmann::json& state) { state[checkpoint_layout::kGpuChoicesKey] = choices; });  // as a training on GPUs does
  const Checkpoint whole = open_checkpoint(saved);
  run_ranks(3, [&](Group& group) {
    cli::Arguments arguments;
    arguments.values["--resume"] = {saved};
    const auto found = cli::checkpoint_to_resume(arguments, cli::Settings(), &group);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->gpu_choices, choices) << "rank " << group.rank();
    EXPECT_EQ(found->files, whole.files);
    EXPECT_EQ(found->weights_hash, whole.weights_hash);
  });
}

}  // namespace
}  // namespace sluice::parallel
