#include "core/cpu/cpu.h"
#include "core/ops/normalization.h"
#include "core/ops/rows_cpu.h"

namespace sluice::kernels {

namespace {

/// One row's statistics; the mean is 0 for rms_norm.
template <class C>
struct RowStatistics {
  C mean, rstd;
};

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

template <class T>
RowStatistics<compute_t<T>> statistics_of(const T* x, int64_t n, bool centered, double epsilon) {
  const auto elements = read(x, n);
  const auto first = elements(0);  // differences from it keep the digits of rows with a large mean
  const auto mean = centered ? first + (elements - first).mean() : compute_t<T>(0);
  const auto variance = (elements - mean).square().mean();
  return {mean, 1 / std::sqrt(variance + static_cast<compute_t<T>>(epsilon))};
}

template <class T>
void input_gradient_row(const T* dy, const T* x, const T* gamma, RowStatistics<compute_t<T>> row, bool centered, int64_t n, T* dx) {
  const auto g = read(dy, n) * read(gamma, n);
  const auto difference = read(x, n) - row.mean;
  const auto slope = (g * difference).mean() * row.rstd * row.rstd * row.rstd;
  const auto offset = centered ? g.mean() * row.rstd : compute_t<T>(0);
  write(dx, n, g * row.rstd - difference * slope - offset);
}

/// sums[0, :] += dy * xhat; sums[1, :] += dy, which rms_norm has not.
template <class T>
void add_weight_gradient_row(const T* dy, const T* x, RowStatistics<compute_t<T>> row, bool centered, int64_t n, compute_t<T>* sums) {
  write(sums, n, read(sums, n) + read(dy, n) * ((read(x, n) - row.mean) * row.rstd));
  if (centered) write(sums + n, n, read(sums + n, n) + read(dy, n));
}

}  // namespace

void normalize(Cpu& cpu, const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta, double epsilon,
               const NormalizedRows& result) {
  const int64_t n = x.dim(-1);
  const bool centered = beta.defined();
  const auto rows = [&]<class T, class C = compute_t<T>>(const T* x, const T* residual, T* sum, const T* gamma, const T* beta, T* y,
                                                         C* mean, C* rstd) {
    cpu.parallel_for(result.rstd.elements(), grain_for(n), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (residual) write(sum + i * n, n, read(x + i * n, n) + read(residual + i * n, n));
        const T* from = (residual ? sum : x) + i * n;
        const auto row = statistics_of(from, n, centered, epsilon);
        rstd[i] = row.rstd;
        const auto scaled = (read(from, n) - row.mean) * row.rstd * read(gamma, n);
        if (!centered) {
          write(y + i * n, n, scaled);
          continue;
        }
        mean[i] = row.mean;
        write(y + i * n, n, scaled + read(beta, n));
      }
    });
  };
  on_float(x.dtype(), "normalization", [&]<class T>() {
    using C = compute_t<T>;
    rows(x.data<T>(), static_cast<const T*>(data_or_null<T>(residual)), data_or_null<T>(result.sum), gamma.data<T>(), data_or_null<T>(beta),
         result.y.data<T>(), data_or_null<C>(result.mean), result.rstd.data<C>());
  });
}

void normalization_backward(Cpu& cpu, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                            int64_t rows_per_chunk, const Tensor& sum, const Tensor& dx, const Tensor& chunk_sums) {
  const int64_t n = x.dim(-1), rows = rstd.elements();
  const bool centered = mean.defined();
  const auto run = [&]<class T, class C = compute_t<T>>(const T* dy, const T* x, const T* gamma, const C* mean, const C* rstd, const T* sum,
                                                        T* dx, C* sums) {
    const int64_t sums_stride = centered ? 2 * n : n;
    cpu.parallel_for(rows, rows_per_chunk, [=](int64_t begin, int64_t end) {
      C* chunk = sums ? sums + begin / rows_per_chunk * sums_stride : nullptr;
      if (chunk) std::fill_n(chunk, sums_stride, C(0));
      for (int64_t i = begin; i < end; ++i) {
        const RowStatistics<C> row{mean ? mean[i] : C(0), rstd[i]};
        if (dx) input_gradient_row(dy + i * n, x + i * n, gamma, row, centered, n, dx + i * n);
        if (sum) write(dx + i * n, n, read(dx + i * n, n) + read(sum + i * n, n));
        if (chunk) add_weight_gradient_row(dy + i * n, x + i * n, row, centered, n, chunk);
      }
    });
  };
  on_float(x.dtype(), "normalization_backward", [&]<class T>() {
    using C = compute_t<T>;
    run(dy.data<T>(), x.data<T>(), gamma.data<T>(), data_or_null<C>(mean), rstd.data<C>(), static_cast<const T*>(data_or_null<T>(sum)),
        data_or_null<T>(dx), data_or_null<C>(chunk_sums));
  });
}

void add_chunks(Cpu& cpu, const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta) {
  constexpr int64_t kColumns = 256;
  const int64_t chunks = chunk_sums.dim(0), n = dgamma.elements(), stride = chunk_sums.dim(1) * n;
  on_float(dgamma.dtype(), "normalization_backward", [&]<class T>() {
    using C = compute_t<T>;
    const auto add = [&](const C* from, T* to) {
      cpu.parallel_for(n, kColumns, [&](int64_t begin, int64_t end) {
        Eigen::Array<C, Eigen::Dynamic, 1, 0, kColumns, 1> sums = decltype(sums)::Zero(end - begin);
        for (int64_t chunk = 0; chunk < chunks; ++chunk) sums += read(from + chunk * stride + begin, end - begin);
        write(to + begin, end - begin, sums);
      });
    };
    add(chunk_sums.data<C>(), dgamma.data<T>());
    if (dbeta.defined()) add(chunk_sums.data<C>() + n, dbeta.data<T>());
  });
}

}  // namespace sluice::kernels
