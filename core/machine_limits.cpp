#include "core/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <thread>
#include <vector>

#include "core/error.h"

namespace sluice {

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
typedef float Vector __attribute__((vector_size(kVectorBytes)));
constexpr int kLanes = kVectorBytes / sizeof(float);

/// Enough independent sums to hide the latency of two multiply-add units, few enough for 16 registers.
constexpr int kSums = 12;
constexpr int kRounds = 100'000;

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Makes the compiler believe that the value is read.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

/// The shortest of the runs of `body` that fit into `budget_seconds`, three at least: other programs only ever make it longer.
template <class Body>
double shortest_seconds(double budget_seconds, const Body& body) {
  double shortest = 1e30;
  const double end = now_seconds() + budget_seconds;
  for (int runs = 0; runs < 3 || now_seconds() < end; ++runs) {
    const double start = now_seconds();
    body();
    shortest = std::min(shortest, now_seconds() - start);
  }
  return shortest;
}

void multiply_add_rounds() {
  Vector sums[kSums] = {};
  Vector factor = Vector{} + 0.999f, term = Vector{} + 0.001f;
  for (int i = 0; i < kSums; ++i) sums[i] += static_cast<float>(i);
  for (int round = 0; round < kRounds; ++round)
    for (Vector& sum : sums) sum = sum * factor + term;
  keep(sums);
}

double core_peak_flops() { return 2.0 * kRounds * kSums * kLanes / shortest_seconds(0.1, multiply_add_rounds); }

}  // namespace

double measured_peak_flops(int threads) {
  require(threads >= 1, "measured_peak_flops: needs threads >= 1, got ", threads);
  std::vector<double> peaks(threads);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&peak = peaks[i]] { peak = core_peak_flops(); });
  peaks[0] = core_peak_flops();
  for (auto& thread : others) thread.join();
  return std::accumulate(peaks.begin(), peaks.end(), 0.0);
}

double measured_bandwidth() {
  constexpr size_t kElements = size_t{16} << 20;
  std::vector<float> a(kElements), b(kElements, 1), c(kElements, 2);
  const double seconds = shortest_seconds(0.1, [&] {
    for (size_t i = 0; i < kElements; ++i) a[i] = b[i] + 3 * c[i];
    keep(a[0]);
  });
  return 3.0 * sizeof(float) * kElements / seconds;
}

}  // namespace sluice
