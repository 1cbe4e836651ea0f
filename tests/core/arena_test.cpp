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

/// Of two arenas: while one looks for memory in vain, the other gives some back where that one has looked already.
class MovingMemory : public MemorySource {
 public:
  explicit MovingMemory(int moves) : moves_(moves) {}
  void* allocate(size_t bytes) override { return moves_ > 0 || is_full_ ? nullptr : system_->allocate(bytes); }
  void release(void* memory, size_t bytes) noexcept override { system_->release(memory, bytes); }
  bool reclaim(size_t) override {
    if (moves_ > 0) --moves_, ++changes_;
    return false;
  }
  uint64_t changes() const override { return changes_; }
  void fill() { is_full_ = true; }

 private:
  std::unique_ptr<MemorySource> system_ = system_memory();
  int moves_;
  uint64_t changes_ = 0;
  bool is_full_ = false;
};

TEST(Arena, LooksAgainWhenSharedMemoryHasChangedMeanwhile) {
  Arena arena(std::make_unique<MovingMemory>(3));
  const auto block = arena.take(1024);
  EXPECT_NE(block.data, nullptr);
  arena.give_back(block);
  auto full = std::make_unique<MovingMemory>(2);
  full->fill();
  Arena other(std::move(full));
  EXPECT_THROW(other.take(1024), std::bad_alloc) << "nothing changes any more";
}

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
