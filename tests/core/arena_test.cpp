#include "core/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace sluice {
namespace {

TEST(Arena, AlignsBlocksTo64Bytes) {
  Arena arena(system_memory());
  for (size_t bytes : {64u, 192u, 4u << 20}) {
    const auto block = arena.take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % Arena::kAlignment, 0u);
    arena.give_back(block);
  }
}

TEST(Arena, ServesARequestFromTheSmallestKeptBlockThatFits) {
  Arena arena(system_memory());
  const auto large = arena.take(1280), fitting = arena.take(1088);
  arena.give_back(large);
  arena.give_back(fitting);
  EXPECT_EQ(arena.take(1024).data, fitting.data);
  EXPECT_EQ(arena.take(1024).data, large.data);
  arena.give_back(large);
  arena.give_back(fitting);
}

TEST(Arena, DoesNotSpendAMuchLargerBlock) {
  Arena arena(system_memory());
  const auto large = arena.take(4096);
  arena.give_back(large);
  const auto small = arena.take(1024);
  EXPECT_NE(small.data, large.data);
  arena.give_back(small);
}

TEST(Arena, TrimGivesEverythingBack) {
  Arena arena(system_memory());
  arena.give_back(arena.take(1024));
  EXPECT_EQ(arena.kept_bytes(), 1024u);
  arena.trim();
  EXPECT_EQ(arena.kept_bytes(), 0u);
}

}  // namespace
}  // namespace sluice
