#include "core/machine_limits.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "build_config.h"
#include "core/control_group.h"
#include "core/cpu/amx.h"
#include "core/error.h"
#include "core/start_thread.h"
#include "core/steady_clock.h"

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

/// Makes the compiler believe that the value is read.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

/// The shortest of the runs of `body` that fit into `budget_seconds`, three at least: other programs only ever make it longer.
template <class Body>
double shortest_seconds(double budget_seconds, const Body& body) {
  double shortest = 1e30;
  const double end = steady_seconds() + budget_seconds;
  for (int runs = 0; runs < 3 || steady_seconds() < end; ++runs) {
    const double start = steady_seconds();
    body();
    shortest = std::min(shortest, steady_seconds() - start);
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

#if defined(__x86_64__)
constexpr int kBf16Lanes = 32;

/// A dot product adds two products to each of 16 sums. Compiled for every build, run where the processor has it.
__attribute__((target("avx512f,avx512bf16"))) void dot_product_rounds() {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const auto one = (__m512bh)_mm512_set1_epi16(0x3f80), small = (__m512bh)_mm512_set1_epi16(0x3a80);
  for (int round = 0; round < kRounds; ++round)
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, one, small);
  keep(sums);
}

double core_bf16_peak_flops() { return 2.0 * kRounds * kSums * kBf16Lanes / shortest_seconds(0.1, dot_product_rounds); }

bool has_dot_products() { return __builtin_cpu_supports("avx512bf16"); }

/// Each adds the products of 16 rows with 16 columns of 32 elements to the sums of one of four tiles. What the others hold is no matter.
__attribute__((target("amx-tile,amx-bf16"))) void tile_product_rounds() {
  for (int round = 0; round < kRounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

double core_tile_peak_flops() {
  const AmxTiles tiles;  // of zeros
  return 2.0 * kRounds * 4 * 16 * 16 * 32 / shortest_seconds(0.1, tile_product_rounds);
}
#else
double core_bf16_peak_flops() { return core_peak_flops(); }
bool has_dot_products() { return false; }
double core_tile_peak_flops() { return core_peak_flops(); }
#endif

/// What `threads` cores reach together.
double sum_over_cores(int threads, double (*peak_of_core)()) {
  require(threads >= 1, "measured_peak_flops: needs threads >= 1, got ", threads);
  std::vector<double> peaks(threads);
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i)
    others.push_back(start_thread("this measurement", [&peak = peaks[i], peak_of_core] { peak = peak_of_core(); }));
  peaks[0] = peak_of_core();
  for (auto& thread : others) thread.join();
  return std::accumulate(peaks.begin(), peaks.end(), 0.0);
}

}  // namespace

double measured_peak_flops(int threads) { return sum_over_cores(threads, core_peak_flops); }

double measured_bf16_peak_flops(int threads) {
  if (has_amx()) return sum_over_cores(threads, core_tile_peak_flops);
  return sum_over_cores(threads, build::has_onednn && has_dot_products() ? core_bf16_peak_flops : core_peak_flops);
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

int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t available = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (int64_t kibibytes; file >> name >> kibibytes; file.ignore(100, '\n'))
    if (name == "MemAvailable:") available = kibibytes * 1024;
  return std::min(available, control_group_room_bytes());
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  return "cpu";
}

}  // namespace sluice
