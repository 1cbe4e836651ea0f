#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/cpu/onednn_matmul.h"
#include "core/random.h"
#include "core/tensor.h"

namespace sluice::testing {

template <class T>
std::vector<T> drawn_numbers(int64_t count, const char* name) {
  const Tensor x = empty({count}, dtype_of<T>());
  fill_normal(x, 0, 1, random_key(1, name));
  return {x.data<T>(), x.data<T>() + count};
}

/// Memory on a cache line.
class LineScratch {
 public:
  explicit LineScratch(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 64) {}
  void* data() {
    void* begin = memory_.data();
    size_t space = memory_.size();
    return std::align(64, memory_.size() - 64, begin, space);
  }

 private:
  std::vector<unsigned char> memory_;
};

constexpr int64_t kGap = 3;  // elements between rows
constexpr float kUntouched = 7;

/// A product of T with operands of its own, and a result of C whose rows and gaps hold kUntouched.
template <class T, class C>
struct DrawnProduct {
  DrawnProduct(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, double beta = 0, bool has_bias = false)
      : product{.dtype = dtype_of<T>(),
                .m = m,
                .n = n,
                .k = k,
                .a_ld = (transpose_a ? m : k) + kGap,
                .b_ld = (transpose_b ? k : n) + kGap,
                .c_ld = n + kGap,
                .transpose_a = transpose_a,
                .transpose_b = transpose_b,
                .beta = beta,
                .has_bias = has_bias,
                .f32_result = std::is_same_v<C, float>},
        a(drawn_numbers<T>((transpose_a ? k : m) * product.a_ld, "a")),
        b(drawn_numbers<T>((transpose_b ? n : k) * product.b_ld, "b")),
        bias(drawn_numbers<C>(n, "bias")),
        c(static_cast<size_t>(m * product.c_ld), static_cast<C>(kUntouched)) {}

  onednn::Product product;
  std::vector<T> a, b;
  std::vector<C> bias, c;
};

}  // namespace sluice::testing
