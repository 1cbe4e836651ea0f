#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "core/ops/copy.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // loads of a thread before its first store
constexpr int kTile = 32, kTileRows = 8;

/// A tensor seen through the axes of its shape that hold more than one element.
struct Strided {
  int rank = 0;
  int64_t extents[kMaxRank], from_strides[kMaxRank], to_strides[kMaxRank];
};

/// Leaves out axes of extent 1 and joins neighbours that both tensors cross with one stride.
Strided strided(const Tensor& from, const Tensor& to) {
  Strided plan;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t extent = from.dim(axis), a = from.stride(axis), b = to.stride(axis);
    if (extent == 1) continue;
    const int last = plan.rank - 1;
    if (last >= 0 && plan.from_strides[last] == a * extent && plan.to_strides[last] == b * extent) {
      plan.extents[last] *= extent;
    } else {
      plan.extents[plan.rank++] = extent;
    }
    plan.from_strides[plan.rank - 1] = a;
    plan.to_strides[plan.rank - 1] = b;
  }
  if (plan.rank == 0) plan = {1, {1}, {1}, {1}};
  return plan;
}

/// The same of elements of `width` neighbours each, or nothing where neighbours do not stay together in whole ones.
std::optional<Strided> in_units(Strided plan, int64_t width) {
  const int last = plan.rank - 1;
  if (width == 1) return plan;
  if (plan.from_strides[last] != 1 || plan.to_strides[last] != 1 || plan.extents[last] % width != 0) return {};
  plan.extents[last] /= width;
  for (int axis = 0; axis < last; ++axis) {
    if (plan.from_strides[axis] % width != 0 || plan.to_strides[axis] % width != 0) return {};
    plan.from_strides[axis] /= width;
    plan.to_strides[axis] /= width;
  }
  return plan;
}

/// Divides numbers below 2^31 by one that stays. Source  Granlund, Montgomery 1994, "Division by invariant integers using multiplication".
struct Divisor {
  uint32_t by = 1, shift = 0, multiplier = 1;

  Divisor() = default;
  explicit Divisor(int64_t of)
      : by(static_cast<uint32_t>(of)),
        shift(static_cast<uint32_t>(std::bit_width(by - 1))),
        multiplier(static_cast<uint32_t>((((uint64_t{1} << shift) - by) << 32) / by + 1)) {}
  __device__ uint32_t quotient(uint32_t number) const { return (__umulhi(number, multiplier) + number) >> shift; }
};

/// Where the elements of a plan lie, by their number.
struct Places {
  struct Pair {
    int64_t from, to;
  };
  int rank;
  Divisor extents[kMaxRank];
  int64_t from_strides[kMaxRank], to_strides[kMaxRank];

  explicit Places(const Strided& plan) : rank(plan.rank) {
    for (int axis = 0; axis < rank; ++axis) extents[axis] = Divisor(plan.extents[axis]);
    std::copy_n(plan.from_strides, rank, from_strides);
    std::copy_n(plan.to_strides, rank, to_strides);
  }
  __device__ Pair operator[](uint32_t number) const {
    Pair at{0, 0};
    for (int axis = rank - 1; axis > 0; --axis) {
      const uint32_t rest = extents[axis].quotient(number), place = number - rest * extents[axis].by;
      at.from += place * from_strides[axis];
      at.to += place * to_strides[axis];
      number = rest;
    }
    return {at.from + number * from_strides[0], at.to + number * to_strides[0]};
  }
};

template <class To, class From>
__device__ To converted(From value) {
  return static_cast<To>(static_cast<compute_t<From>>(value));
}

/// Neighbours that no side takes more than 16 bytes for.
template <class From, class To>
constexpr int kRunWidth = 16 / static_cast<int>(std::max(sizeof(From), sizeof(To)));

template <class To, class From, int kWidth>
__device__ Run<kWidth, To> converted_run(const Run<kWidth, From>& from) {
  Run<kWidth, To> to;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) to.at[i] = converted<To>(from.at[i]);
  return to;
}

/// As many neighbours as fit 16 bytes on either side go at once where `aligned`, and those behind the last whole run one by one.
template <class From, class To>
__global__ void copy_runs(const From* from, To* to, int64_t count, bool aligned) {
  constexpr int kWidth = kRunWidth<From, To>;
  const int64_t runs = aligned ? count / kWidth : 0, step = grid_size();
  for (int64_t first = grid_index(); first < runs; first += kInFlight * step) {
    Whole<Run<kWidth, From>> loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * step < runs) loaded[k] = load_whole<Run<kWidth, From>>(from + (first + k * step) * kWidth);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * step < runs)
        store_run(to + (first + k * step) * kWidth, converted_run<To>(std::bit_cast<Run<kWidth, From>>(loaded[k])));
  }
  for (int64_t i = runs * kWidth + grid_index(); i < count; i += step) to[i] = converted<To>(from[i]);
}

/// Of fewer than 2^31 elements.
template <class From, class To>
__global__ void copy_strided(const From* from, To* to, Places places, uint32_t count) {
  const auto step = static_cast<uint32_t>(grid_size());
  for (auto first = static_cast<uint32_t>(grid_index()); first < count; first += kInFlight * step) {
    From values[kInFlight];
    int64_t targets[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const Places::Pair at = places[first + k * step];
      targets[k] = at.to;
      if (first + k * step < count) values[k] = from[at.from];
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * step < count) to[targets[k]] = converted<To>(values[k]);
  }
}

/// to[c, r] = from[r, c]: through a tile of shared memory, so that both sides go along their rows.
template <class From, class To>
__global__ void transpose_tiles(const From* from, To* to, int64_t rows, int64_t columns, int64_t from_ld, int64_t to_ld) {
  __shared__ To tile[kTile][kTile + 1];  // one column more, so that a column's elements lie in different banks
  const int64_t first_row = int64_t{blockIdx.y} * kTile, first_column = int64_t{blockIdx.x} * kTile;
  for (int row = threadIdx.y; row < kTile; row += kTileRows)
    if (first_row + row < rows && first_column + threadIdx.x < columns)
      tile[row][threadIdx.x] = converted<To>(from[(first_row + row) * from_ld + first_column + threadIdx.x]);
  __syncthreads();
  for (int column = threadIdx.y; column < kTile; column += kTileRows)
    if (first_column + column < columns && first_row + threadIdx.x < rows)
      to[(first_column + column) * to_ld + first_row + threadIdx.x] = tile[threadIdx.x][column];
}

/// A matrix of which one side runs along rows and the other along columns.
bool is_transpose(const Strided& plan) { return plan.rank == 2 && plan.from_strides[0] == 1 && plan.to_strides[1] == 1; }

/// Copies of 2^31 elements and more are cut in two along their longest axis.
template <class From, class To>
void launch_strided(Cuda& cuda, const From* from, To* to, const Strided& plan) {
  const int64_t count = std::accumulate(plan.extents, plan.extents + plan.rank, int64_t{1}, std::multiplies());
  if (count >= int64_t{1} << 31) {
    const auto longest = std::max_element(plan.extents, plan.extents + plan.rank) - plan.extents;
    Strided lower = plan, upper = plan;
    const int64_t half = lower.extents[longest] /= 2;
    upper.extents[longest] -= half;
    launch_strided(cuda, from, to, lower);
    return launch_strided(cuda, from + half * plan.from_strides[longest], to + half * plan.to_strides[longest], upper);
  }
  launch(cuda, "copy", {grid_for(cuda, (count + kInFlight - 1) / kInFlight, kThreads), kThreads}, copy_strided<From, To>, from, to,
         Places(plan), static_cast<uint32_t>(count));
}

/// Elements of one dtype are copied in the widest units that both sides allow.
template <class Unit, class T>
bool copy_units(Cuda& cuda, const T* from, T* to, const Strided& plan) {
  if constexpr (sizeof(Unit) >= sizeof(T)) {
    const std::optional<Strided> units = in_units(plan, sizeof(Unit) / sizeof(T));
    if (!units || reinterpret_cast<uintptr_t>(from) % sizeof(Unit) != 0 || reinterpret_cast<uintptr_t>(to) % sizeof(Unit) != 0)
      return false;
    launch_strided(cuda, reinterpret_cast<const Unit*>(from), reinterpret_cast<Unit*>(to), *units);
    return true;
  }
  return false;
}

template <class From, class To>
void copy_elements(Cuda& cuda, const Tensor& from, const Tensor& to) {
  constexpr int kWidth = kRunWidth<From, To>;
  constexpr bool kSame = std::is_same_v<From, To>;
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t count = to.elements();
  const Strided plan = strided(from, to);
  const bool aligned = packs_fit<uint8_t>(0, source, target);
  if (plan.rank == 1 && plan.from_strides[0] == 1 && plan.to_strides[0] == 1 && (aligned || !kSame)) {
    const int64_t of_thread = kInFlight * (aligned ? kWidth : 1);
    return launch(cuda, "copy", {grid_for(cuda, (count + of_thread - 1) / of_thread, kThreads), kThreads}, copy_runs<From, To>, source,
                  target, count, aligned);
  }
  const int64_t rows = plan.extents[1], columns = plan.extents[0];
  if (is_transpose(plan) && (rows + kTile - 1) / kTile <= 65535) {
    const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile));
    return launch(cuda, "transpose", {grid, dim3(kTile, kTileRows)}, transpose_tiles<From, To>, source, target, rows, columns,
                  plan.from_strides[1], plan.to_strides[0]);
  }
  if constexpr (kSame)
    copy_units<int4>(cuda, source, target, plan) || copy_units<int64_t>(cuda, source, target, plan) ||
        copy_units<int32_t>(cuda, source, target, plan) || copy_units<uint16_t>(cuda, source, target, plan) ||
        copy_units<uint8_t>(cuda, source, target, plan);
  else
    launch_strided(cuda, source, target, plan);
}

template <class T>
__global__ void fill_runs(T* x, T value, int64_t count) {
  for (int64_t i = grid_index(); i < count; i += grid_size()) x[i] = value;
}

}  // namespace

void copy(Cuda& cuda, const Tensor& from, const Tensor& to) {
  if (to.elements() == 0) return;
  on_any(from.dtype(), "copy",
         [&]<class From>() { on_any(to.dtype(), "copy", [&]<class To>() { copy_elements<From, To>(cuda, from, to); }); });
}

void fill(Cuda& cuda, const Tensor& x, double value) {
  on_any(x.dtype(), "fill", [&]<class T>() {
    launch(cuda, "fill", {grid_for(cuda, x.elements(), kThreads), kThreads}, fill_runs<T>, x.data<T>(), static_cast<T>(value),
           x.elements());
  });
}

}  // namespace sluice::kernels
