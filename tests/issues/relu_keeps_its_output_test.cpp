// ReLU kept its input for its gradient, beside its output, which the op after it kept: a network of such layers held each of these images
// twice.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "autograd/backward.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "core/elements.h"
#include "core/ops/copy.h"
#include "core/ops/select.h"

namespace sluice {
namespace {

using Layer = std::function<Var(const Var&)>;

Var biased(const Var& x) { return bias_activation(Unary::Relu, x, Var(zeros({x.dim(-1)}, x.dtype(), x.value().device_ptr()))); }
Var plain(const Var& x) { return unary(Unary::Relu, x); }
Var leaky(const Var& x) { return leaky_relu(x, 0.5); }

Var after_a_product(const Var& x) {
  const DevicePtr& device = x.value().device_ptr();
  return linear_activation(Unary::Relu, x, Var(eye(64, DType::f32, device)), Var(zeros({64}, DType::f32, device)), {});
}

TEST(ReluKeepsItsOutput, SoThatItsInputCanGo) {
  // Beside x and y there are the outputs of ReLU, which square() keeps; and of a product its input and its weight.
  for (const auto& [layer, images] :
       {std::pair(Layer(plain), 5), std::pair(Layer(biased), 5), std::pair(Layer(leaky), 5), std::pair(Layer(after_a_product), 10)}) {
    const DevicePtr device = make_device("cpu");
    const Var x = Var::input(full({64, 64}, 1, DType::f32, device));
    Var y = x;
    for (int i = 0; i < 3; ++i) y = square(layer(y));
    const int64_t image = 64 * 64 * 4, biases = 64 * 4 * 3;
    EXPECT_LE(device->live_bytes(), images * image + biases);
    EXPECT_EQ(gradients(y, full_like(y.value(), 1), {x})[0].to_vector(), std::vector<double>(64 * 64, 8));
  }
}

TEST(ReluKeepsItsOutput, AndTheSlopeAtEveryNumberIsTheSame) {
  constexpr double kLeast = std::numeric_limits<float>::denorm_min(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kLeastBf16 = 9.18354961579912e-41;
  const std::vector<double> numbers{-kInfinity, -2, -kLeast, -kLeastBf16, -0.0, 0.0, kLeast, kLeastBf16, 3, kInfinity, kNan};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const auto& [layer, below] : {std::pair(Layer(plain), 0.0), std::pair(Layer(biased), 0.0), std::pair(Layer(leaky), 0.5),
                                       std::pair(Layer([](const Var& of) { return leaky_relu(of, 0); }), 0.0),
                                       std::pair(Layer([](const Var& of) { return leaky_relu(of, -2); }), -2.0)}) {
      const Var x = Var::input(cast(tensor(numbers, {1, 11}), dtype));
      const auto read = x.value().to_vector(), slopes = gradients(layer(x), full_like(x.value(), 1), {x})[0].to_vector();
      for (size_t i = 0; i < read.size(); ++i) {
        const double expected = read[i] > 0 ? 1 : below;
        EXPECT_TRUE(std::isnan(read[i]) ? std::isnan(slopes[i]) : slopes[i] == expected)
            << name_of(dtype) << ' ' << read[i] << " -> " << slopes[i];
      }
    }
}

}  // namespace
}  // namespace sluice
