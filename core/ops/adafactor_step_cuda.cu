#include "core/ops/adafactor_rules.h"
#include "core/ops/optimizer_slots_cuda.cuh"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256, kColumnThreads = 32;
constexpr int64_t kFewChunks = 1024;                       // whose sums every block that needs their total adds up itself
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
  bool packed_rows;

  __device__ int64_t chunks() const { return (slot.count + kAdafactorChunk - 1) / kAdafactorChunk; }
};

__device__ inline double squared(double x) { return x * x; }

/// A team a row.
template <class T>
__global__ void __launch_bounds__(kMostRowThreads) average_row(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const int64_t at = team_row();
  const bool exists = at < of.rows;
  Row<T, 0> row(of.slot.gradient + (exists ? at : 0) * of.columns, exists ? static_cast<int>(of.columns) : 0, of.packed_rows);
  double squares = 0;
  each_pack(
      [&](int, int, const Pack<T>& pack) {
#pragma unroll
        for (int i = 0; i < Pack<T>::kCount; ++i) squares += squared(pack.at[i] * static_cast<T>(factor));
      },
      row);
  squares = team_sum(squares);
  if (!exists || threadIdx.x > 0) return;
  T& average = of.slot.states[0][at];
  average = rules::averaged(average, static_cast<T>(squares / of.columns), of.factors.taken);
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

/// One block.
template <class T>
__device__ void find_mean_of_rows(const Stepped<T>& of) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < of.rows; i += kThreads) sum += of.slot.states[0][i];
  sum = team_sum(sum) / of.rows;
  if (threadIdx.x == 0) of.sums[kMeanOfRows] = fmax(sum, static_cast<double>(rules::kAdafactorLeast<T>));
}

/// A thread a column; the last block takes the mean of the rows' averages.
template <class T>
__global__ void __launch_bounds__(kThreads) average_columns(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  if (blockIdx.x == gridDim.x - 1) return find_mean_of_rows(of);
  const int64_t column = grid_index();
  if (column >= of.columns) return;
  double squares = 0;
  for (int64_t part = 0; part < of.row_parts; ++part) squares += of.column_sums[part * of.columns + column];
  T& average = of.slot.states[1][column];
  average = rules::averaged(average, static_cast<T>(squares / of.rows), of.factors.taken);
}

/// Of a parameter of one axis.
template <class T>
__device__ void average_element(const Stepped<T>& of, double factor, int64_t at) {
  const T gradient = of.slot.gradient[at] * static_cast<T>(factor);
  T& average = of.slot.states[0][at];
  average = rules::averaged(average, gradient * gradient, of.factors.taken);
}
/// A thread an element.
template <class T>
__global__ void __launch_bounds__(kThreads) average_elements(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor == factor && grid_index() < of.slot.count) average_element(of, factor, grid_index());
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
  /// Calls f(first element, updates, parameters) for the thread's packs, with 0 for elements behind the last.
  template <class F>
  __device__ void each_update(const F& f) const {
    constexpr int kWidth = Pack<T>::kCount, kInFlight = 2, kStep = kThreads * kWidth;
    const Slot<T>& slot = of_.slot;
    for (int first = static_cast<int>(threadIdx.x) * kWidth; first < count(); first += kInFlight * kStep) {
      Pack<T> gradients[kInFlight], parameters[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        gradients[k] = read_pack(slot.gradient, begin_ + first + k * kStep, slot.count, slot.aligned);
        parameters[k] = read_pack(slot.parameter, begin_ + first + k * kStep, slot.count, slot.aligned);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (const int at = first + k * kStep; at < count())
          f(begin_ + at, of_.is_factored ? factored(at, gradients[k]) : plain(at, gradients[k]), parameters[k]);
    }
  }

 private:
  __device__ Pack<T> plain(int at, Pack<T> gradient) const {
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; ++i)
      if (at + i < count()) gradient.at[i] = rules::adafactor_update(gradient.at[i] * factor_, of_.slot.states[0][begin_ + at + i]);
    return gradient;
  }
  /// The row's share, a division of doubles, is taken once for neighbours of one row.
  __device__ Pack<T> factored(int at, Pack<T> gradient) const {
    const unsigned from_row = column_ + static_cast<unsigned>(at);
    unsigned row = from_row / columns_, column = from_row % columns_;
    T of_row = share_of(row);
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; ++i) {
      if (at + i >= count()) break;
      if (column == columns_) column = 0, of_row = share_of(++row);
      gradient.at[i] = rules::adafactor_update(gradient.at[i] * factor_, of_row * of_.slot.states[1][column++]);
    }
    return gradient;
  }
  __device__ T share_of(unsigned row) const { return static_cast<T>(of_.slot.states[0][row_ + row] / mean_); }

  int64_t begin_;
  const Stepped<T>& of_;
  int64_t row_;
  unsigned column_, columns_;
  T factor_;
  double mean_;
};

/// Of the updates and of the parameters of the block's chunk, for all threads.
template <class T>
__device__ TwoSums<double> squares_of(const Chunk<T>& chunk) {
  TwoSums<double> sums{0, 0};
  chunk.each_update([&](int64_t, const Pack<T>& updates, const Pack<T>& parameters) {
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; ++i) {
      sums.first += squared(updates.at[i]);
      sums.second += squared(parameters.at[i]);
    }
  });
  return team_sums(sums);
}

/// A block a chunk.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_squares(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  const TwoSums<double> sums = squares_of(Chunk<T>(of, factor));
  if (threadIdx.x > 0) return;
  of.sums[kOfChunks + blockIdx.x] = sums.first;
  of.sums[kOfChunks + of.chunks() + blockIdx.x] = sums.second;
}

/// What u is multiplied by, of the chunks' sums, for all threads of a block.
template <class T>
__device__ double scale_of(const Stepped<T>& of) {
  const int64_t chunks = of.chunks();
  TwoSums<double> sums{0, 0};
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) {
    sums.first += of.sums[kOfChunks + i];
    sums.second += of.sums[kOfChunks + chunks + i];
  }
  sums = team_sums(sums);
  return of.factors.scale(sums.first, sums.second, static_cast<double>(of.slot.count));
}

/// One block.
template <class T>
__global__ void __launch_bounds__(kThreads) make_scale(Stepped<T> of) {
  const double scale = scale_of(of);
  if (threadIdx.x == 0) of.sums[kScale] = scale;
}

template <class T>
__device__ void apply_to(const Stepped<T>& of, const Chunk<T>& chunk, double scale) {
  const T shrink = static_cast<T>(of.factors.shrink), rate = static_cast<T>(scale);
  chunk.each_update([&](int64_t first, const Pack<T>& updates, Pack<T> parameters) {
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; ++i) parameters.at[i] = shrink * parameters.at[i] - rate * updates.at[i];
    write_pack(of.slot.parameter, first, of.slot.count, of.slot.aligned, parameters);
    if constexpr (std::is_same_v<T, float>)
      if (of.slot.working) write_working(of.slot, first, parameters);
  });
}

/// A block a chunk.
template <class T>
__global__ void __launch_bounds__(kThreads, 4) apply_update(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  apply_to(of, Chunk<T>(of, factor), of.chunks() <= kFewChunks ? scale_of(of) : of.sums[kScale]);
}

/// All of the step of a parameter of one axis and one chunk, which most biases and weights of norms are: one block.
template <class T>
__global__ void __launch_bounds__(kThreads) step_chunk(Stepped<T> of) {
  const double factor = of.clip.factor();
  if (factor != factor) return;
  for (int64_t at = threadIdx.x; at < of.slot.count; at += kThreads) average_element(of, factor, at);
  __syncthreads();
  const Chunk<T> chunk(of, factor);
  const TwoSums<double> sums = squares_of(chunk);
  apply_to(of, chunk, of.factors.scale(sums.first, sums.second, static_cast<double>(of.slot.count)));
}

template <class T>
void step_parameter(Cuda& cuda, const Stepped<T>& of) {
  const auto blocks = [](int64_t items, int64_t of_block) { return static_cast<unsigned>((items + of_block - 1) / of_block); };
  const auto run = [&](dim3 grid, dim3 block, void (*kernel)(Stepped<T>)) { launch(cuda, "adafactor_step", {grid, block}, kernel, of); };
  const unsigned chunks = blocks(of.slot.count, kAdafactorChunk);
  if (of.is_factored) {
    const RowTeams teams = RowTeams::of<T>(of.columns, Row<T, 0>::kHeld);
    run(teams.grid(of.rows), teams.block(), average_row<T>);
    run(dim3(blocks(of.columns, kColumnThreads), static_cast<unsigned>(of.row_parts)), dim3(kColumnThreads, kThreads / kColumnThreads),
        sum_columns<T>);
    run(blocks(of.columns, kThreads) + 1, kThreads, average_columns<T>);
  } else {
    if (chunks == 1) return run(1, kThreads, step_chunk<T>);
    run(blocks(of.slot.count, kThreads), kThreads, average_elements<T>);
  }
  run(chunks, kThreads, sum_squares<T>);
  if (chunks > kFewChunks) run(1, kThreads, make_scale<T>);
  run(chunks, kThreads, apply_update<T>);
}

}  // namespace

void adafactor_step(Cuda& cuda, const OptimizerSlot& slot, const AdafactorStep& step, const GradientClip& clip,
                    const AdafactorScratch& scratch) {
  const AdafactorMatrix matrix(slot.parameter.shape());
  require<UsageError>(std::max(matrix.rows, matrix.columns) <= int64_t{1} << 30,
                      "adafactor_step on cuda: needs at most 2^30 rows and columns, got a parameter ", slot.parameter.shape());
  const auto run = [&]<class T>() {
    Stepped<T> of{slot_of<T>(slot),
                  matrix.rows,
                  matrix.columns,
                  matrix.is_factored,
                  rules::AdafactorFactors(step, slot.decay),
                  Clip(clip),
                  scratch.sums.data<double>(),
                  scratch.columns.defined() ? scratch.columns.data<T>() : nullptr,
                  adafactor_row_parts(matrix.rows),
                  packs_fit<T>(matrix.columns, slot.gradient.data<T>())};
    of.slot.aligned = packs_fit<T>(0, of.slot.parameter, of.slot.gradient, of.slot.working);  // states are taken one by one
    step_parameter<T>(cuda, of);
  };
  if (slot.parameter.dtype() == DType::f64) return run.operator()<double>();
  run.operator()<float>();
}

}  // namespace sluice::kernels
