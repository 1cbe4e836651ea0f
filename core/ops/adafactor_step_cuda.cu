#include "core/ops/adafactor_rules.h"
#include "core/ops/optimizer_slots_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256, kColumnThreads = 32;
constexpr int kMeanOfRows = 0, kScale = 1, kOfChunks = 2;  // places among the scratch's sums

/// What all kernels of one step of one parameter need.
template <class T>
struct Stepped {
  Slot<T> slot;  ///< states: by row and column, or {the averages of all elements}
  int64_t rows, columns;
  bool is_factored;
  rules::AdafactorFactors factors;
  Clip clip;
  double* sums;
  T* column_sums;
  int64_t row_parts;

  __device__ int64_t chunks() const { return (slot.count + kAdafactorChunk - 1) / kAdafactorChunk; }
};

__device__ inline double squared(double x) { return x * x; }

/// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads) average_row(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const T* row = of.slot.gradient + blockIdx.x * of.columns;
  double squares = 0;
  for (int64_t j = threadIdx.x; j < of.columns; j += kThreads) squares += squared(row[j] * static_cast<T>(factor));
  squares = team_sum(squares);
  T& average = of.slot.states[0][blockIdx.x];
  if (threadIdx.x == 0) average = rules::averaged(average, static_cast<T>(squares / of.columns), of.factors.taken);
}

/// A block [columns, rows at a time] sums up a part of the rows: blockIdx.y says which.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_columns(Stepped<T> of) {
  __shared__ double of_thread[kThreads];
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x, of_part = (of.rows + of.row_parts - 1) / of.row_parts;
  const int64_t begin = blockIdx.y * of_part, end = min(of.rows, begin + of_part);
  double squares = 0;
  if (column < of.columns)
    for (int64_t i = begin + threadIdx.y; i < end; i += blockDim.y)
      squares += squared(of.slot.gradient[i * of.columns + column] * static_cast<T>(factor));
  of_thread[threadIdx.y * kColumnThreads + threadIdx.x] = squares;
  __syncthreads();
  if (threadIdx.y > 0 || column >= of.columns) return;
  for (int y = 1; y < static_cast<int>(blockDim.y); ++y) squares += of_thread[y * kColumnThreads + threadIdx.x];
  of.column_sums[blockIdx.y * of.columns + column] = static_cast<T>(squares);
}

/// A thread a column.
template <class T>
__global__ void __launch_bounds__(kThreads) average_column(Stepped<T> of) {
  const double factor = of.clip.factor();
  const int64_t column = grid_index();
  if (factor != factor || column >= of.columns) return;
  double squares = 0;
  for (int64_t part = 0; part < of.row_parts; ++part) squares += of.column_sums[part * of.columns + column];
  T& average = of.slot.states[1][column];
  average = rules::averaged(average, static_cast<T>(squares / of.rows), of.factors.taken);
}

/// Of a parameter of one axis: a thread an element.
template <class T>
__global__ void __launch_bounds__(kThreads) average_element(Stepped<T> of) {
  const double factor = of.clip.factor();
  const int64_t at = grid_index();
  if (factor != factor || at >= of.slot.count) return;
  const T gradient = of.slot.gradient[at] * static_cast<T>(factor);
  T& average = of.slot.states[0][at];
  average = rules::averaged(average, gradient * gradient, of.factors.taken);
}

/// One block.
template <class T>
__global__ void __launch_bounds__(kThreads) mean_of_rows(Stepped<T> of) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < of.rows; i += kThreads) sum += of.slot.states[0][i];
  sum = team_sum(sum) / of.rows;
  if (threadIdx.x == 0) of.sums[kMeanOfRows] = fmax(sum, static_cast<double>(rules::kAdafactorLeast<T>));
}

/// Elements of a chunk and where in the matrix they lie.
template <class T>
class Chunk {
 public:
  __device__ Chunk(const Stepped<T>& of, double factor)
      : begin_(int64_t{blockIdx.x} * kAdafactorChunk),
        of_(of),
        row_(begin_ / of.columns),
        column_(static_cast<unsigned>(begin_ % of.columns)),
        columns_(static_cast<unsigned>(of.columns)),
        factor_(static_cast<T>(factor)),
        mean_(of.is_factored ? of.sums[kMeanOfRows] : 1) {}

  __device__ int64_t begin() const { return begin_; }
  __device__ int count() const { return static_cast<int>(min(of_.slot.count - begin_, kAdafactorChunk)); }
  /// Of the element that so many follow in the chunk.
  __device__ T update(int at) const {
    const T gradient = of_.slot.gradient[begin_ + at] * factor_;
    if (!of_.is_factored) return rules::adafactor_update(gradient, of_.slot.states[0][begin_ + at]);
    const unsigned from_row = column_ + static_cast<unsigned>(at), row = from_row / columns_, column = from_row % columns_;
    return rules::adafactor_update(gradient, static_cast<T>(of_.slot.states[0][row_ + row] / mean_) * of_.slot.states[1][column]);
  }

 private:
  int64_t begin_;
  const Stepped<T>& of_;
  int64_t row_;
  unsigned column_, columns_;
  T factor_;
  double mean_;
};

/// A block a chunk.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_squares(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const Chunk<T> chunk(of, factor);
  double updates = 0, parameters = 0;
  for (int at = static_cast<int>(threadIdx.x); at < chunk.count(); at += kThreads) {
    updates += squared(chunk.update(at));
    parameters += squared(of.slot.parameter[chunk.begin() + at]);
  }
  updates = team_sum(updates);
  parameters = team_sum(parameters);
  if (threadIdx.x > 0) return;
  of.sums[kOfChunks + blockIdx.x] = updates;
  of.sums[kOfChunks + of.chunks() + blockIdx.x] = parameters;
}

/// One block.
template <class T>
__global__ void __launch_bounds__(kThreads) make_scale(Stepped<T> of) {
  const int64_t chunks = of.chunks();
  double updates = 0, parameters = 0;
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) {
    updates += of.sums[kOfChunks + i];
    parameters += of.sums[kOfChunks + chunks + i];
  }
  updates = team_sum(updates);
  parameters = team_sum(parameters);
  if (threadIdx.x == 0) of.sums[kScale] = of.factors.scale(updates, parameters, static_cast<double>(of.slot.count));
}

/// A block a chunk, a pack a thread at a time.
template <class T>
__global__ void __launch_bounds__(kThreads) apply_update(Stepped<T> of) {
  constexpr int kWidth = Pack<T>::kCount;
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const Chunk<T> chunk(of, factor);
  const T shrink = static_cast<T>(of.factors.shrink), rate = static_cast<T>(of.sums[kScale]);
  for (int at = static_cast<int>(threadIdx.x) * kWidth; at < chunk.count(); at += kThreads * kWidth) {
    const int64_t first = chunk.begin() + at;
    Pack<T> parameter = read_pack(of.slot.parameter, first, of.slot.count, of.slot.aligned);
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      if (at + i < chunk.count()) parameter.at[i] = shrink * parameter.at[i] - rate * chunk.update(at + i);
    write_pack(of.slot.parameter, first, of.slot.count, of.slot.aligned, parameter);
    if constexpr (std::is_same_v<T, float>)
      if (of.slot.working) write_working(of.slot, first, parameter);
  }
}

template <class T>
void step_parameter(Cuda& cuda, const Stepped<T>& of) {
  const auto blocks = [](int64_t items, int64_t of_block) { return static_cast<unsigned>((items + of_block - 1) / of_block); };
  const auto run = [&](dim3 grid, dim3 block, void (*kernel)(Stepped<T>)) { launch(cuda, "adafactor_step", {grid, block}, kernel, of); };
  if (of.is_factored) {
    run(static_cast<unsigned>(of.rows), kThreads, average_row<T>);
    run(dim3(blocks(of.columns, kColumnThreads), static_cast<unsigned>(of.row_parts)), dim3(kColumnThreads, kThreads / kColumnThreads),
        sum_columns<T>);
    run(blocks(of.columns, kThreads), kThreads, average_column<T>);
    run(1, kThreads, mean_of_rows<T>);
  } else {
    run(blocks(of.slot.count, kThreads), kThreads, average_element<T>);
  }
  run(blocks(of.slot.count, kAdafactorChunk), kThreads, sum_squares<T>);
  run(1, kThreads, make_scale<T>);
  run(blocks(of.slot.count, kAdafactorChunk), kThreads, apply_update<T>);
}

}  // namespace

void adafactor_step(Cuda& cuda, const OptimizerSlot& slot, const AdafactorStep& step, const GradientClip& clip,
                    const AdafactorScratch& scratch) {
  const AdafactorMatrix matrix(slot.parameter.shape());
  require<UsageError>(std::max(matrix.rows, matrix.columns) <= int64_t{1} << 30,
                      "adafactor_step on cuda: needs at most 2^30 rows and columns, got a parameter ", slot.parameter.shape());
  const auto run = [&]<class T>() {
    step_parameter<T>(cuda, {slot_of<T>(slot), matrix.rows, matrix.columns, matrix.is_factored, rules::AdafactorFactors(step, slot.decay),
                             Clip(clip), scratch.sums.data<double>(), scratch.columns.defined() ? scratch.columns.data<T>() : nullptr,
                             adafactor_row_parts(matrix.rows)});
  };
  if (slot.parameter.dtype() == DType::f64) return run.operator()<double>();
  run.operator()<float>();
}

}  // namespace sluice::kernels
