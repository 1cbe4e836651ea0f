#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace sluice::testing {

/// How to make one input. Values are made in f64 and rounded to the dtype under test, so that all dtypes see the same numbers.
struct InputSpec {
  std::function<Tensor()> make;                           ///< on the host, row-major; f64, or an index dtype that is left alone
  std::function<Tensor(const Tensor&)> view{};            ///< a strided view of it; empty for the whole
  Tensor on(const DevicePtr& device, DType dtype) const;  ///< floating elements in `dtype`; the view is one of those
};
InputSpec randn(const Shape& shape, double scale = 1);  ///< normal numbers; another draw for each call in a list
/// A whole scale could else be a key of sluice::randn.
inline InputSpec randn(const Shape& shape, int scale) { return randn(shape, static_cast<double>(scale)); }
InputSpec uniform(const Shape& shape, double low, double high);
InputSpec constant(const Shape& shape, double value);
InputSpec values(const Shape& shape, std::vector<double> elements);
InputSpec indices(const Shape& shape, int64_t below, DType dtype = DType::i32);  ///< integers in [0, below)
InputSpec lengths(const std::vector<double>& of_samples);                        ///< i32 [B], of samples that end in padding
InputSpec transposed(InputSpec inner, int a, int b);                             ///< a strided view
InputSpec sliced(InputSpec inner, int axis, int64_t begin, int64_t end);
InputSpec misaligned(const Shape& shape);  ///< normal numbers, row-major, at an address that allows no accesses of 16 bytes

using Values = std::vector<double>;

/// One case of one op: test of value and gradient, check of the cost and the bytes on meta, and benchmark row.
struct OpCase {
  std::string name;  ///< within the op: "causal_odd"
  std::vector<InputSpec> inputs;
  std::function<Var(const std::vector<Var>&)> run;                ///< the differentiable op
  std::function<Values(const std::vector<Tensor>&)> expect = {};  ///< plain loops in f64; the inputs arrive as f64, row-major
  std::string throws = {};                                        ///< part of the message of the error that must come
  bool gradient = true;                                           ///< compare with central differences in f64
  bool low_precision = true;                                      ///< also run in bf16
  bool bench = false;                                             ///< a row of op_bench; not tested (its sizes are a model's)
  double tolerance_scale = 1;                                     ///< multiplies the dtype's tolerance (long sums)
};

struct NamedCase {
  std::string op;
  OpCase value;
};
inline void PrintTo(const NamedCase& named, std::ostream* out) { *out << named.op << ", case " << named.value.name; }

/// Every case of the program, in the order of registration.
std::vector<NamedCase>& all_cases();

struct Registration {
  Registration(const char* op, void (*fill)(const std::function<void(OpCase)>& add));
};

}  // namespace sluice::testing

/// OP_CASES(softmax) { add({.name = "small", .inputs = {randn({4, 7})}, .run = ..., .expect = ...}); }
#define OP_CASES(op)                                                               \
  static void op##_cases(const std::function<void(sluice::testing::OpCase)>& add); \
  static const sluice::testing::Registration op##_registration(#op, op##_cases);   \
  static void op##_cases([[maybe_unused]] const std::function<void(sluice::testing::OpCase)>& add)
