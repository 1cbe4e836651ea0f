#include "core/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace sluice {
namespace {

/// Gives so many bytes and no more.
class LimitedMemory : public MemorySource {
 public:
  explicit LimitedMemory(size_t left) : left_(left) {}
  void* allocate(size_t bytes) override {
    if (bytes > left_) return nullptr;
    left_ -= bytes;
    return system_->allocate(bytes);
  }
  void release(void* memory, size_t bytes) noexcept override {
    left_ += bytes;
    system_->release(memory, bytes);
  }
  bool is_bounded() const override { return true; }

 private:
  std::unique_ptr<MemorySource> system_ = system_memory();
  size_t left_;
};

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

TEST(Arena, SpendsNoLargerBlockWhereMemoryIsBounded) {
  Arena arena(std::make_unique<LimitedMemory>(4096));
  const auto larger = arena.take(1088);
  arena.give_back(larger);
  const auto exact = arena.take(1024);
  EXPECT_NE(exact.data, larger.data);
  EXPECT_EQ(arena.kept_bytes(), 1088u);
  arena.give_back(exact);
}

TEST(Arena, GivesBackNoMoreKeptBlocksThanARequestNeeds) {
  Arena arena(std::make_unique<LimitedMemory>(4096));
  const auto a = arena.take(2048), b = arena.take(1024), c = arena.take(1024);
  for (const auto& block : {a, b, c}) arena.give_back(block);
  const auto small = arena.take(512);  // in the place of one of 1024
  EXPECT_EQ(arena.kept_bytes(), 2048u + 1024u);
  const auto large = arena.take(3072);  // in the place of both others and of what the first left
  EXPECT_EQ(arena.kept_bytes(), 0u);
  EXPECT_THROW(arena.take(1024), std::bad_alloc);
  arena.give_back(small);
  arena.give_back(large);
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
