#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

/// What a CPU kernel gets: the intra-op threads of its device.
///
/// Determinism: work is cut into chunks of `grain` items that do not depend on the number of threads, and each chunk is run by one
/// thread; a kernel that writes each result from one chunk (or combines chunk results in chunk order) gives the same bits for every
/// number of threads.
/// Threads  any: where a device has several threads, callers wait for each other.
class Cpu {
 public:
  explicit Cpu(int threads);
  ~Cpu();
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  int threads() const { return threads_; }

  /// Calls body(begin, end) for consecutive chunks of at most `grain` items that cover [0, items).
  template <class Body>
  void parallel_for(int64_t items, int64_t grain, const Body& body) {
    const int64_t size = grain > 1 ? grain : 1;
    const auto chunk = [&](int64_t number) {
      const int64_t end = (number + 1) * size;
      body(number * size, end < items ? end : items);
    };
    run_chunks((items + size - 1) / size, std::ref(chunk));
  }

  /// Calls body(item, slot) for each item in [0, items). Items that run at the same time have different slots below threads(), so that
  /// a slot can own scratch memory. Which slot an item gets depends on the number of threads; results must not.
  template <class Body>
  void parallel_slots(int64_t items, const Body& body) {
    parallel_for(threads_ < items ? threads_ : items, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t item = slot; item < items; item += threads_) body(item, slot);
    });
  }

 private:
  /// Out of line, so that the compiler makes one copy of a body: two copies may fuse multiplications and additions differently.
  void run_chunks(int64_t chunks, const std::function<void(int64_t)>& chunk);
  struct Team;
  int threads_;
  std::unique_ptr<Team> team_;  ///< threads - 1 helpers, started at the first use
};

/// A grain that gives each chunk about 32 Ki elements when an item has `elements_per_item` of them.
inline int64_t grain_for(int64_t elements_per_item) {
  constexpr int64_t kElements = 32768;
  if (elements_per_item <= 1) return kElements;
  return elements_per_item < kElements ? kElements / elements_per_item : 1;
}

}  // namespace sluice
