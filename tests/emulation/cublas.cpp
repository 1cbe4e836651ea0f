// Stands in for core/cuda/cublas.cpp where kernels are emulated: plain loops, launched like any other kernel so that the stream's order
// holds for them too.
#include "core/cuda/cublas.h"

#include <algorithm>

#include "core/cuda/choices.h"
#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/cuda/trial.h"
#include "core/ops/elementwise_rules.h"
#include "tests/emulation/cublas.h"

namespace sluice::cublas {

namespace {

constexpr int kThreads = 32, kColumns = 64, kTerms = 128;

struct Tile {
  int64_t row, first, columns;
};

/// sums += row of op(a) times columns of op(b), for some of the terms; along b's rows in memory.
template <class T, class V>
__device__ void add_terms(const Product& p, const V* row, const T* b, const Tile& tile, int64_t begin, int64_t terms, V* sums) {
  if (p.transpose_b)
    for (int64_t j = 0; j < tile.columns; ++j)
      for (int64_t i = 0; i < terms; ++i) sums[j] += row[i] * static_cast<V>(b[(tile.first + j) * p.b_ld + begin + i]);
  else
    for (int64_t i = 0; i < terms; ++i)
      for (int64_t j = 0; j < tile.columns; ++j) sums[j] += row[i] * static_cast<V>(b[(begin + i) * p.b_ld + tile.first + j]);
}

template <class T, class C>
__device__ void multiply_tile(const Product& p, const T* a, const T* b, const C* bias, C* before, C* c, const Tile& tile) {
  using V = compute_t<T>;
  V sums[kColumns] = {}, row[kTerms];
  for (int64_t begin = 0; begin < p.k; begin += kTerms) {
    const int64_t terms = std::min<int64_t>(kTerms, p.k - begin);
    for (int64_t i = 0; i < terms; ++i)
      row[i] = static_cast<V>(p.transpose_a ? a[(begin + i) * p.a_ld + tile.row] : a[tile.row * p.a_ld + begin + i]);
    add_terms(p, row, b, tile, begin, terms, sums);
  }
  C* to = c + tile.row * p.c_ld + tile.first;
  for (int64_t j = 0; j < tile.columns; ++j) {
    if (p.beta != 0) sums[j] += static_cast<V>(p.beta) * static_cast<V>(to[j]);
    if (p.has_bias) sums[j] += static_cast<V>(bias[tile.first + j]);
    if (p.has_gelu) {
      before[tile.row * p.before_ld + tile.first + j] = static_cast<C>(sums[j]);
      sums[j] = rules::GeluTanh::value(kernels::Scalar<C>(sums[j])).value;
    }
    to[j] = static_cast<C>(sums[j]);
  }
}

int64_t strips_of(int64_t columns) { return (columns + kColumns - 1) / kColumns; }

/// A thread makes a strip of a row of c.
template <class T, class C>
__global__ void multiply_rows(Product p, const T* a, const T* b, const C* bias, C* before, C* c) {
  const int64_t strips = strips_of(p.n), index = kernels::grid_index();
  if (index >= p.batch * p.m * strips) return;
  const int64_t first = index % strips * kColumns, matrix = index / strips / p.m;
  const Tile tile{index / strips % p.m, first, std::min<int64_t>(kColumns, p.n - first)};
  multiply_tile(p, a + matrix * p.a_stride, b + matrix * p.b_stride, bias, before, c + matrix * p.c_stride, tile);
}

template <class T, class C>
void launch_rows(Cuda& cuda, const Product& p, const void* a, const void* b, const void* bias, void* before, void* c) {
  const int64_t threads = p.batch * p.m * strips_of(p.n);
  launch(cuda, "multiply_rows", {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), dim3(kThreads)}, multiply_rows<T, C>, p,
         static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const C*>(bias), static_cast<C*>(before), static_cast<C*>(c));
}

std::string name_of_algorithm(size_t index) { return join("algorithm ", index); }

Candidate candidate(size_t index) {
  return {name_of_algorithm(index), [index] {
            auto& library = emulation::emulated_cublas();
            const std::lock_guard lock(library.mutex);
            ++library.trials;
            return library.seconds.at(index);
          }};
}

std::vector<Candidate> candidates(int most) {
  std::vector<Candidate> all;
  for (int i = 0; i < std::min(most, static_cast<int>(emulation::emulated_cublas().seconds.size())); ++i) all.push_back(candidate(i));
  return all;
}

/// As the library's calls do, though here it decides nothing.
void choose(Cuda& cuda, const Product& p) {
  const std::string key = join(product_prefix(cuda.description()), name_of(p.dtype), " to ", name_of(p.c_dtype), " [", p.m, ", ", p.n, ", ",
                               p.k, "] ", p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", p.has_bias ? " + bias" : "",
                               p.has_gelu ? ", gelu" : "", p.beta != 0 ? " + c" : "", ", batch ", p.batch);
  const std::string choice =
      Choices::of_process().choose({.key = key,
                                    .can_run = [](const std::string& known) { return known.starts_with("algorithm "); },
                                    .untried = [] { return name_of_algorithm(0); },
                                    .candidates = candidates,
                                    .may_be_tried = !is_captured(cuda),
                                    .is_kept = false});
  auto& library = emulation::emulated_cublas();
  const std::lock_guard lock(library.mutex);
  library.ran[key] = choice;
}

}  // namespace

size_t version() { return 0; }
std::string product_prefix(const GpuDescription& gpu) { return join(gpu_prefix(gpu), "cuBLAS ", version(), ": "); }

void multiply_part(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c) {
  choose(cuda, product);
  on_float(product.dtype, "cublas", [&]<class T>() {
    if (product.c_dtype == product.dtype)
      launch_rows<T, T>(cuda, product, a, b, bias, nullptr, c);
    else
      launch_rows<T, compute_t<T>>(cuda, product, a, b, bias, nullptr, c);
  });
}

bool multiply_gelu(Cuda& cuda, Product product, const void* a, const void* b, const void* bias, void* before, void* c) {
  if (product.dtype != DType::bf16 || !gelu_epilogue_gains(cuda.compute_capability())) return false;
  product.has_bias = product.has_gelu = true;
  choose(cuda, product);
  launch_rows<bfloat16, bfloat16>(cuda, product, a, b, bias, before, c);
  return true;
}

}  // namespace sluice::cublas

namespace sluice::emulation {

Cublas& emulated_cublas() {
  static Cublas library;
  return library;
}

}  // namespace sluice::emulation
