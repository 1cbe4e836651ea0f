#include <Eigen/Core>

#include "core/cpu/gemm.h"

namespace sluice {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
using ConstView = Eigen::Map<const Matrix<T>, 0, Eigen::OuterStride<>>;

template <class T>
void multiply_by_eigen(const onednn::Product& p, const T* a_data, const T* b_data, T* c_data) {
  const ConstView<T> a(a_data, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, Eigen::OuterStride<>(p.a_ld));
  const ConstView<T> b(b_data, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, Eigen::OuterStride<>(p.b_ld));
  Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>> c(c_data, p.m, p.n, Eigen::OuterStride<>(p.c_ld));
  if (p.beta == 0) c.setZero();
  if (p.transpose_a && p.transpose_b) {
    c.noalias() += a.transpose() * b.transpose();
  } else if (p.transpose_a) {
    c.noalias() += a.transpose() * b;
  } else if (p.transpose_b) {
    c.noalias() += a * b.transpose();
  } else {
    c.noalias() += a * b;
  }
}

}  // namespace

void gemm(const onednn::Product& product, const float* a, const float* b, float* c) { multiply_by_eigen(product, a, b, c); }

void gemm(const onednn::Product& product, const double* a, const double* b, double* c) { multiply_by_eigen(product, a, b, c); }

}  // namespace sluice
