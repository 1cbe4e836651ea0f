#include "core/cpu/cpu.h"
#include "core/ops/batch_norm.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kColumns = 1024;  // of a block: what belongs to its columns lies on the stack
constexpr int64_t kWholeRegisters = 16, kWideRow = 128, kMostFold = 64;

/// Rows of few channels are taken several at a time, as one long row: until no register is left half empty, and longer where they are short.
/// A power of two.
int64_t fold_of(int64_t columns) {
  int64_t fold = 1;
  while (fold < kMostFold && 2 * fold * columns <= kColumns && (fold * columns < kWideRow || fold * columns % kWholeRegisters != 0))
    fold *= 2;
  return fold;
}

/// A chunk of rows of a block of columns.
struct Block {
  int64_t chunk, begin, end;  ///< rows
  int64_t column, count;      ///< columns; all of them where rows are folded
  int64_t columns, fold;      ///< of the matrix; rows in a long row

  int64_t width() const { return count * fold; }
  /// Calls body(first element, elements) for each long row, the last of which may be shorter.
  template <class Body>
  void each_row(const Body& body) const {
    for (int64_t row = begin; row < end; row += fold) body(row * columns + column, std::min(fold, end - row) * count);
  }
  /// values(j) of each column, once for each row of a long row.
  template <class C, class Values>
  void fill(C* to, const Values& values) const {
    for (int64_t j = 0; j < count; ++j) to[j] = values(column + j);
    for (int64_t j = count; j < width(); ++j) to[j] = to[j - count];
  }
};

template <class Body>
void for_blocks(Cpu& cpu, const Tensor& x, int64_t rows_per_chunk, const Body& body) {
  const int64_t columns = x.dim(-1), rows = x.shape().elements_before(-1), fold = fold_of(columns);
  cpu.parallel_for(rows, rows_per_chunk, [&](int64_t begin, int64_t end) {
    for (int64_t column = 0; column < columns; column += kColumns)
      body(Block{begin / rows_per_chunk, begin, end, column, std::min(kColumns, columns - column), columns, fold});
  });
}

/// A ChannelNorm for a block.
template <class T, class C = compute_t<T>>
struct BlockNorm {
  BlockNorm(const ChannelNorm& norm, const Block& block) : relu(norm.relu) {
    const C *means = norm.mean.data<C>(), *variances = norm.variance.data<C>();
    const T *gammas = norm.gamma.data<T>(), *betas = norm.beta.data<T>();
    const auto rstd = [&](int64_t j) { return 1 / std::sqrt(variances[j] + static_cast<C>(norm.epsilon)); };
    block.fill(mean, [&](int64_t j) { return means[j]; });
    block.fill(scale, [&](int64_t j) { return static_cast<C>(gammas[j]) * rstd(j); });
    block.fill(beta, [&](int64_t j) { return static_cast<C>(betas[j]); });
  }
  /// Of lanes of x less their mean, before ReLU.
  template <class V, class Load>
  V value(V difference, const Load& load) const {
    return difference * load(scale) + load(beta);
  }
  /// The gradient of that.
  template <class V, class Load>
  V gradient(V dy, V difference, const Load& load) const {
    return relu ? where_positive(value(difference, load), dy, V(0)) : dy;
  }

  bool relu;
  C mean[kColumns], scale[kColumns], beta[kColumns];
};

/// Two sums for each column of a block, over its rows, four long rows at a time. term(load, at) is the pair of lanes at element `at`.
template <class T, class C, class Term>
void sum_rows(const Block& block, C* first, C* second, const Term& term) {
  C sums[2][kColumns];
  const int64_t width = block.width(), step = block.columns * block.fold;
  std::fill_n(sums[0], width, C(0));
  std::fill_n(sums[1], width, C(0));
  const auto add = [&]<int kRows>(int64_t at, int64_t count) {
    for_lanes<T>(0, count, [&](auto load, auto store) {
      auto [a, b] = term(load, at);
      for (int i = 1; i < kRows; ++i) {
        const auto [more_a, more_b] = term(load, at + i * step);
        a = a + more_a;
        b = b + more_b;
      }
      store(sums[0], load(sums[0]) + a);
      store(sums[1], load(sums[1]) + b);
    });
  };
  Block rest = block;
  for (; rest.begin + 4 * rest.fold <= rest.end; rest.begin += 4 * rest.fold)
    add.template operator()<4>(rest.begin * rest.columns + rest.column, width);
  rest.each_row([&](int64_t at, int64_t count) { add.template operator()<1>(at, count); });
  for (int64_t j = block.count; j < width; ++j)
    for (auto& sum : sums) sum[j % block.count] += sum[j];
  std::copy_n(sums[0], block.count, first);
  std::copy_n(sums[1], block.count, second);
}

}  // namespace

void batch_moments(Cpu& cpu, const Tensor& x, int64_t rows_per_chunk, const Tensor& chunk_sums, const Tensor& mean,
                   const Tensor& variance) {
  const int64_t columns = x.dim(-1), rows = x.shape().elements_before(-1), chunks = chunk_sums.dim(1);
  on_float(x.dtype(), "batch_norm", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = x.data<T>();
    C *sums = chunk_sums.data<C>(), *to_mean = mean.data<C>(), *to_variance = variance.data<C>();
    for_blocks(cpu, x, rows_per_chunk, [&](const Block& block) {
      C origin[kColumns];
      block.fill(origin, [&](int64_t j) { return static_cast<C>(from[block.begin * columns + j]); });
      C* to = sums + block.chunk * columns + block.column;
      sum_rows<T>(block, to, to + chunks * columns, [&](const auto& load, int64_t at) {
        const auto difference = load(from + at) - load(origin);
        return std::pair(difference, difference * difference);
      });
    });
    cpu.parallel_for(columns, kColumns, [&](int64_t first, int64_t last) {
      double mean_of[kColumns], squares[kColumns];
      std::fill_n(mean_of, last - first, 0.0);
      std::fill_n(squares, last - first, 0.0);
      const auto each_chunk = [&](const auto& body) {
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          const int64_t row = chunk * rows_per_chunk;
          const C* sum = sums + chunk * columns + first;
          const T* origin = from + row * columns + first;
          const auto count = static_cast<double>(std::min(rows_per_chunk, rows - row));
          for (int64_t j = 0; j < last - first; ++j)
            body(j, count, static_cast<double>(static_cast<C>(origin[j])), static_cast<double>(sum[j]),
                 static_cast<double>(sum[chunks * columns + j]));
        }
      };
      const auto all = static_cast<double>(rows);
      each_chunk([&](int64_t j, double count, double origin, double sum, double) { mean_of[j] += count * origin + sum; });
      for (int64_t j = 0; j < last - first; ++j) mean_of[j] /= all;
      each_chunk([&](int64_t j, double count, double origin, double sum, double sum_of_squares) {
        const double shift = origin - mean_of[j];
        squares[j] += sum_of_squares + shift * (2 * sum + shift * count);
      });
      for (int64_t j = 0; j < last - first; ++j) {
        to_mean[first + j] = static_cast<C>(mean_of[j]);
        to_variance[first + j] = static_cast<C>(squares[j] < 0 ? 0 : squares[j] / all);
      }
    });
  });
}

void normalize_channels(Cpu& cpu, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk, const Tensor& y) {
  on_float(x.dtype(), "batch_norm", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_blocks(cpu, x, rows_per_chunk, [&](const Block& block) {
      const BlockNorm<T> of(norm, block);
      block.each_row([&](int64_t at, int64_t count) {
        for_lanes<T>(0, count, [&](auto load, auto store) {
          const auto value = of.value(load(from + at) - load(of.mean), load);
          store(to + at, of.relu ? where_positive(-value, decltype(value)(0), value) : value);  // keeps NaN
        });
      });
    });
  });
}

void batch_norm_weight_gradients(Cpu& cpu, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                                 const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta) {
  const int64_t columns = x.dim(-1), chunks = chunk_sums.dim(1);
  on_float(x.dtype(), "batch_norm_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T *from = x.data<T>(), *gradient = dy.data<T>();
    const C* variance = norm.variance.data<C>();
    C *sums = chunk_sums.data<C>(), *to_gamma = dgamma.data<C>(), *to_beta = dbeta.data<C>();
    for_blocks(cpu, x, rows_per_chunk, [&](const Block& block) {
      const BlockNorm<T> of(norm, block);
      C* to = sums + block.chunk * columns + block.column;
      sum_rows<T>(block, to, to + chunks * columns, [&](const auto& load, int64_t at) {
        const auto difference = load(from + at) - load(of.mean);
        const auto g = of.gradient(load(gradient + at), difference, load);
        return std::pair(g, g * difference);
      });
    });
    cpu.parallel_for(columns, kColumns, [&](int64_t first, int64_t last) {
      double beta[kColumns], gamma[kColumns];
      std::fill_n(beta, last - first, 0.0);
      std::fill_n(gamma, last - first, 0.0);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const C* sum = sums + chunk * columns + first;
        for (int64_t j = 0; j < last - first; ++j) {
          beta[j] += static_cast<double>(sum[j]);
          gamma[j] += static_cast<double>(sum[chunks * columns + j]);
        }
      }
      for (int64_t j = first; j < last; ++j) {
        to_beta[j] = static_cast<C>(beta[j - first]);
        to_gamma[j] = static_cast<C>(gamma[j - first] / std::sqrt(static_cast<double>(variance[j]) + norm.epsilon));
      }
    });
  });
}

void batch_norm_input_gradient(Cpu& cpu, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                               const Tensor& dgamma, const Tensor& dbeta, const Tensor& dx) {
  on_float(x.dtype(), "batch_norm_backward", [&]<class T>() {
    using C = compute_t<T>;
    const auto rows = static_cast<C>(x.shape().elements_before(-1));
    const T *from = x.data<T>(), *gradient = dy.data<T>();
    const C *of_gamma = dgamma.defined() ? dgamma.data<C>() : nullptr, *of_beta = dbeta.defined() ? dbeta.data<C>() : nullptr;
    const C* variance = norm.variance.data<C>();
    T* to = dx.data<T>();
    for_blocks(cpu, x, rows_per_chunk, [&](const Block& block) {
      const BlockNorm<T> of(norm, block);
      C offset[kColumns], slope[kColumns];
      block.fill(offset, [&](int64_t j) { return of_beta ? of_beta[j] / rows : C(0); });
      block.fill(slope,
                 [&](int64_t j) { return of_gamma ? of_gamma[j] / std::sqrt(variance[j] + static_cast<C>(norm.epsilon)) / rows : C(0); });
      block.each_row([&](int64_t at, int64_t count) {
        for_lanes<T>(0, count, [&](auto load, auto store) {
          const auto difference = load(from + at) - load(of.mean);
          const auto g = of.gradient(load(gradient + at), difference, load);
          store(to + at, load(of.scale) * (g - load(offset) - difference * load(slope)));
        });
      });
    });
  });
}

}  // namespace sluice::kernels
