#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::emulation {

/// Random numbers of one launch. Source  Steele et al. 2014, "Fast Splittable Pseudorandom Number Generators" (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t count) { return static_cast<uint32_t>((next() >> 32) * count >> 32); }

 private:
  uint64_t state_;
};

/// Numbers that come out in random order.
class RandomBag {
 public:
  void fill(uint32_t count) {
    items_.resize(count);
    for (uint32_t i = 0; i < count; ++i) items_[i] = i;
  }
  void put(uint32_t item) { items_.push_back(item); }
  bool empty() const { return items_.empty(); }
  uint32_t take(Random& random) {
    std::swap(items_[random.below(static_cast<uint32_t>(items_.size()))], items_.back());
    const uint32_t item = items_.back();
    items_.pop_back();
    return item;
  }

 private:
  std::vector<uint32_t> items_;
};

}  // namespace sluice::emulation
