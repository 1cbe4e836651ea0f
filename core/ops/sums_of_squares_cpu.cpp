#include "core/cpu/cpu.h"
#include "core/ops/lanes.h"
#include "core/ops/sums_of_squares.h"

namespace sluice::kernels {

namespace {

/// Several accumulators, which the compiler keeps in registers and which keep the rounding error small.
template <class T>
double squares(const T* x, int64_t count) {
  constexpr int kAccumulators = 32;
  double sums[kAccumulators] = {};
  const auto square = [x](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); };
  int64_t i = 0;
  for (; i + kAccumulators <= count; i += kAccumulators) {
    ask_ahead(x + i, kAccumulators);
    for (int j = 0; j < kAccumulators; ++j) sums[j] += square(i + j);
  }
  for (int j = 0; i < count; ++i, ++j) sums[j] += square(i);
  for (int j = 1; j < kAccumulators; ++j) sums[0] += sums[j];
  return sums[0];
}

constexpr int64_t kChunk = squares_chunk(DeviceKind::cpu);

void sum_chunks(Cpu& cpu, const Tensor& x, double* parts) {
  on_float(x.dtype(), "sums_of_squares", [&]<class T>() {
    cpu.parallel_for(x.elements(), kChunk,
                     [=, from = x.data<T>()](int64_t begin, int64_t end) { parts[begin / kChunk] = squares(from + begin, end - begin); });
  });
}

double combine_chunks(const double* parts, int64_t chunks) {
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += parts[chunk];
  return total;
}

}  // namespace

void sums_of_squares(Cpu& cpu, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places) {
  auto* parts = partial.data<double>();
  for (size_t i = 0; i < xs.size(); ++i) {
    const int64_t chunks = squares_chunks(DeviceKind::cpu, xs[i].elements());
    sum_chunks(cpu, xs[i], parts);
    sums.data<double>()[places[i]] = combine_chunks(parts, chunks);
    parts += chunks;
  }
}

void squares_of_chunks(Cpu& cpu, const Tensor& x, const Tensor& partial) { sum_chunks(cpu, x, partial.data<double>()); }

void sum_of_chunks(Cpu&, const Tensor& partial, const Tensor& sums, int64_t place) {
  sums.data<double>()[place] = combine_chunks(partial.data<double>(), partial.elements());
}

}  // namespace sluice::kernels
