#include "tests/ops/op_case.h"

#include "core/ops/copy.h"
#include "core/random.h"

namespace sluice::testing {

namespace {

/// The op whose cases are made, and its draws so far: numbers of one op do not depend on how many cases others have.
struct Draws {
  std::string op = "op_case";
  uint64_t count = 0;
};
Draws& draws() {
  static Draws all;  // cases are made before main, in any order of files
  return all;
}

uint64_t next_key() { return random_key(++draws().count, draws().op); }

}  // namespace

InputSpec randn(const Shape& shape, double scale) {
  return {[shape, scale, key = next_key()] {
    Tensor x = empty(shape, DType::f64);
    fill_normal(x, 0, scale, key);
    return x;
  }};
}

InputSpec uniform(const Shape& shape, double low, double high) {
  return {[=, key = next_key()] {
    Tensor x = empty(shape, DType::f64);
    fill_uniform(x, low, high, key);
    return x;
  }};
}

InputSpec constant(const Shape& shape, double value) {
  return {[=] { return full(shape, value, DType::f64); }};
}

InputSpec values(const Shape& shape, std::vector<double> elements) {
  return {[=] { return tensor_of(elements, shape, DType::f64); }};
}

InputSpec indices(const Shape& shape, int64_t below, DType dtype) {
  return {[=, key = next_key()] {
    Tensor x = empty(shape, DType::f64);
    fill_uniform(x, 0, static_cast<double>(below), key);
    std::vector<double> whole = x.to_vector();
    for (double& value : whole) value = static_cast<double>(static_cast<int64_t>(value));
    return tensor_of(whole, shape, dtype);
  }};
}

InputSpec lengths(const std::vector<double>& of_samples) {
  return {[=] { return tensor_of(of_samples, {static_cast<int64_t>(of_samples.size())}, DType::i32); }};
}

namespace {

InputSpec viewed(InputSpec inner, std::function<Tensor(const Tensor&)> outer_view) {
  const auto view = [inner_view = inner.view, outer_view](const Tensor& x) { return outer_view(inner_view ? inner_view(x) : x); };
  return {inner.make, view};
}

}  // namespace

InputSpec transposed(InputSpec inner, int a, int b) {
  return viewed(std::move(inner), [=](const Tensor& x) { return x.transpose(a, b); });
}

InputSpec sliced(InputSpec inner, int axis, int64_t begin, int64_t end) {
  return viewed(std::move(inner), [=](const Tensor& x) { return x.slice(axis, begin, end); });
}

InputSpec misaligned(const Shape& shape) {
  return viewed(randn({shape.elements() + 1}), [=](const Tensor& x) { return x.slice(0, 1, x.elements()).reshape(shape); });
}

Tensor InputSpec::on(const DevicePtr& device, DType dtype) const {
  Tensor whole = make().to(device);
  if (is_floating(whole.dtype())) whole = cast(whole, dtype);
  return view ? view(whole) : whole;
}

std::vector<NamedCase>& all_cases() {
  static std::vector<NamedCase> cases;
  return cases;
}

Registration::Registration(const char* op, void (*fill)(const std::function<void(OpCase)>& add)) {
  draws() = {op, 0};
  fill([op](OpCase value) { all_cases().push_back({op, std::move(value)}); });
}

}  // namespace sluice::testing
