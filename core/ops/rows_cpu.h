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
    ask_ahead(x + i);
    return Lanes<compute_t<T>>::load(x + i).all;
  }
};

/// n elements as an Eigen expression in the type of arithmetic. Eigen reduces an array from its first aligned address on, but an
/// expression like this from its first element: so sums do not depend on the address.
template <class T>
auto read(const T* x, int64_t n) {
  return Eigen::Array<compute_t<T>, Eigen::Dynamic, 1>::NullaryExpr(n, Reader<T>{x});
}

/// The exponential of a register, of which a single element is one.
template <class C>
struct Exponential {
  C operator()(C x) const { return Eigen::internal::pfirst(exp(Lanes<C>(x)).all); }
  template <class Register>
  Register packetOp(const Register& x) const {
    return exp(Lanes<C>(x)).all;
  }
};

/// exp(x) of an Eigen expression.
template <class Expression>
auto exponentials(const Expression& x) {
  return x.unaryExpr(Exponential<typename Expression::Scalar>());
}

/// y[0..n) = expression, which is in the type of arithmetic; rounds to T. Registers begin at y, wherever that is: assigned to a Map they would
/// begin at its first aligned address, and a single element before it may have other bits than in a register.
template <class T, class Expression>
void write(T* y, int64_t n, const Expression& expression) {
  using V = Lanes<compute_t<T>>;
  const Eigen::internal::evaluator<Expression> from(expression);
  int64_t i = 0;
  for (; i + V::kCount <= n; i += V::kCount) {
    ask_ahead(y + i);
    V(from.template packet<Eigen::Unaligned, typename V::Register>(i)).store(y + i);
  }
  for (; i < n; ++i) y[i] = static_cast<T>(from.coeff(i));
}

}  // namespace sluice::kernels

template <class T>
struct Eigen::internal::functor_traits<sluice::kernels::Reader<T>> {
  enum { Cost = 1, PacketAccess = true, IsRepeatable = true };
};

template <class C>
struct Eigen::internal::functor_traits<sluice::kernels::Exponential<C>> {
  enum { Cost = 20, PacketAccess = true };
};
