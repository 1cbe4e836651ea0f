#pragma once
#include "core/ops/lanes.h"

namespace sluice::kernels {

/// Element i of an array, or a register of elements from i on, in the type of arithmetic.
template <class T>
struct Reader {
  const T* x;
  compute_t<T> operator()(Eigen::Index i) const { return x[i]; }
  template <class Register>
  Register packetOp(Eigen::Index i) const {
    return Lanes<compute_t<T>>::load(x + i).all;
  }
};

/// n elements as an Eigen expression in the type of arithmetic. Eigen reduces an array from its first aligned address on, but an
/// expression like this from its first element: so sums do not depend on the address.
template <class T>
auto read(const T* x, int64_t n) {
  return Eigen::Array<compute_t<T>, Eigen::Dynamic, 1>::NullaryExpr(n, Reader<T>{x});
}

/// y[0..n) = expression, which is in the type of arithmetic; rounds to T. Registers begin at y, wherever that is: assigned to a Map they would
/// begin at its first aligned address, and the exponential of a single element before it has other bits than that of a register.
template <class T, class Expression>
void write(T* y, int64_t n, const Expression& expression) {
  using C = compute_t<T>;
  if constexpr (std::is_same_v<T, C>) {
    using Register = typename Lanes<T>::Register;
    const Eigen::internal::evaluator<Expression> from(expression);
    int64_t i = 0;
    for (; i + Lanes<T>::kCount <= n; i += Lanes<T>::kCount)
      Eigen::internal::pstoreu(y + i, from.template packet<Eigen::Unaligned, Register>(i));
    for (; i < n; ++i) y[i] = from.coeff(i);
  } else {
    constexpr int64_t kBlock = 256;
    Eigen::Array<C, Eigen::Dynamic, 1, 0, kBlock, 1> block;
    for (int64_t i = 0; i < n; i += kBlock) {
      block = expression.segment(i, std::min(kBlock, n - i));
      std::transform(block.begin(), block.end(), y + i, [](C value) { return T(value); });
    }
  }
}

}  // namespace sluice::kernels

template <class T>
struct Eigen::internal::functor_traits<sluice::kernels::Reader<T>> {
  enum { Cost = 1, PacketAccess = true, IsRepeatable = true };
};
