// Runs every op case: value against the reference, gradient against central differences, split backward, and the meta device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "autograd/backward.h"
#include "core/cuda/cuda.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/ops/op_case.h"
#include "tests/tolerance.h"

namespace sluice::testing {
namespace {

/// A case and the device on which it runs: "cpu:0", or "cuda:0" where there is a GPU.
struct PlacedCase {
  NamedCase named;
  std::string device;
};
void PrintTo(const PlacedCase& placed, std::ostream* out) {
  *out << placed.named.op << ", case " << placed.named.value.name << " on " << placed.device;
}

class OpTest : public ::testing::TestWithParam<PlacedCase> {
 protected:
  const OpCase& op_case() const { return GetParam().named.value; }
  bool on_cpu() const { return GetParam().device == "cpu:0"; }
  DevicePtr device() const { return on_cpu() ? default_device() : gpu(); }
  /// One for all cases: making one takes milliseconds.
  static const DevicePtr& gpu() {
    static const DevicePtr device = make_device("cuda:0");
    return device;
  }

  /// The inputs in one dtype; index inputs keep theirs.
  std::vector<Tensor> inputs(DType dtype) const { return inputs(dtype, device()); }
  std::vector<Tensor> inputs(DType dtype, const DevicePtr& device) const {
    std::vector<Tensor> result;
    for (const auto& spec : op_case().inputs) result.push_back(spec.on(device, dtype));
    return result;
  }

  /// The inputs in f32, row-major, on a device of their own; without elements on meta.
  std::vector<Tensor> placed_on(const DevicePtr& device) const {
    std::vector<Tensor> placed;
    for (const auto& x : inputs(DType::f32)) {
      placed.push_back(empty(x.shape(), x.dtype(), device));
      if (device->kind() != DeviceKind::meta) copy(x, placed.back());
    }
    return placed;
  }

  static bool wants_gradient(const Tensor& x) { return is_floating(x.dtype()); }

  static std::vector<Var> leaves(const std::vector<Tensor>& tensors, bool as_parameters = false) {
    std::vector<Var> vars;
    for (const auto& x : tensors) vars.push_back(!wants_gradient(x) ? Var(x) : as_parameters ? Var::parameter(x) : Var::input(x));
    return vars;
  }

  void expect_near(const Values& got, const Values& want, double tolerance, const std::string& what) const {
    ASSERT_EQ(got.size(), want.size()) << what;
    double scale = 1;
    for (double value : want)
      if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isinf(want[i]) || std::isnan(want[i])) {
        ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << what << " at " << i;
        continue;
      }
      ASSERT_NEAR(got[i], want[i], tolerance * op_case().tolerance_scale * scale) << what << ", element " << i;
    }
  }

  /// Gradients of sum(y * weight) for a fixed random weight.
  std::vector<Tensor> analytic(const std::vector<Var>& vars) const {
    const Var y = op_case().run(vars);
    Backward backward(y, projection(y.value()));
    backward.run();
    std::vector<Tensor> result;
    for (const auto& var : vars) result.push_back(var.node() ? backward.take(var) : Tensor());
    return result;
  }

  static Tensor projection(const Tensor& y) {
    Tensor weight = empty(y.shape(), DType::f64, y.device_ptr());
    fill_normal(weight, 0, 1, random_key(7, "projection"));
    return cast(weight, y.dtype());
  }

  static std::vector<uint64_t> bits_of(const Tensor& x) {
    std::vector<uint64_t> bits;
    for (double value : x.to_vector()) bits.push_back(std::bit_cast<uint64_t>(value));
    return bits;
  }

  double projected(const std::vector<Tensor>& tensors) const {
    const Tensor y = op_case().run(std::vector<Var>(tensors.begin(), tensors.end())).value();
    const Values value = y.to_vector(), weight = projection(y).to_vector();
    double sum = 0;
    for (size_t i = 0; i < value.size(); ++i) sum += value[i] * weight[i];
    return sum;
  }

  bool skips_value() const { return op_case().bench || !op_case().throws.empty(); }
  bool skips_gradient() const { return skips_value() || !op_case().gradient; }
};

TEST_P(OpTest, ComputesTheReferenceInEveryDtype) {
  if (skips_value() || !op_case().expect) return;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && !op_case().low_precision) continue;
    std::vector<Tensor> exact;
    const auto rounded = inputs(dtype);
    for (const auto& x : rounded) exact.push_back((is_floating(x.dtype()) ? cast(x, DType::f64) : x).contiguous().to(default_device()));
    const auto y = op_case().run(std::vector<Var>(rounded.begin(), rounded.end())).value();
    expect_near(y.to_vector(), op_case().expect(exact), tolerance_of(dtype).value, std::string(name_of(dtype)));
  }
}

TEST_P(OpTest, HasTheGradientOfCentralDifferences) {
  if (skips_gradient() || !on_cpu()) return;  // other devices are compared with this one
  const auto tensors = inputs(DType::f64);
  const auto computed = analytic(leaves(tensors));
  constexpr double kStep = 1e-6;
  for (size_t which = 0; which < tensors.size(); ++which) {
    if (!wants_gradient(tensors[which])) continue;
    Values numeric;
    for (int64_t i = 0; i < tensors[which].elements(); ++i) {
      double side[2];
      for (int sign = 0; sign < 2; ++sign) {
        Values moved = tensors[which].to_vector();
        moved[i] += sign == 0 ? kStep : -kStep;
        auto copy_of = tensors;
        copy_of[which] = tensor_of(moved, tensors[which].shape(), DType::f64);
        side[sign] = projected(copy_of);
      }
      numeric.push_back((side[0] - side[1]) / (2 * kStep));
    }
    ASSERT_TRUE(computed[which].defined()) << "input " << which;
    ASSERT_EQ(computed[which].shape(), tensors[which].shape()) << "input " << which;
    expect_near(computed[which].to_vector(), numeric, tolerance_of(DType::f64).gradient, "gradient of input " + std::to_string(which));
  }
}

TEST_P(OpTest, HasTheGradientOfTheCpu) {
  if (skips_gradient() || on_cpu()) return;
  const auto compare = [&](DType dtype, double bound) {
    const auto ours = analytic(leaves(inputs(dtype))), reference = analytic(leaves(inputs(dtype, default_device())));
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i].defined(), reference[i].defined());
      if (ours[i].defined())
        expect_near(ours[i].to_vector(), reference[i].to_vector(), bound, join(name_of(dtype), " gradient of input ", i));
    }
  };
  compare(DType::f64, 1e-9);
  if (op_case().low_precision) compare(DType::bf16, tolerance_of(DType::bf16).gradient);
}

TEST_P(OpTest, HasTheSameGradientInF32) {
  if (skips_gradient()) return;
  const auto exact = analytic(leaves(inputs(DType::f64))), single = analytic(leaves(inputs(DType::f32)));
  for (size_t i = 0; i < exact.size(); ++i)
    if (exact[i].defined())
      expect_near(single[i].to_vector(), exact[i].to_vector(), tolerance_of(DType::f32).gradient,
                  "f32 gradient of input " + std::to_string(i));
}

TEST_P(OpTest, SumsGradientsOfBf16ParametersInF32) {
  if (skips_gradient() || !op_case().low_precision) return;
  const auto rounded = inputs(DType::bf16);
  std::vector<Tensor> exact;
  for (const auto& x : rounded) exact.push_back(wants_gradient(x) ? cast(x, DType::f64) : x);
  const auto expected = analytic(leaves(exact)), computed = analytic(leaves(rounded, true));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    EXPECT_EQ(computed[i].dtype(), DType::f32);
    expect_near(computed[i].to_vector(), expected[i].to_vector(), tolerance_of(DType::bf16).gradient,
                "bf16 gradient of input " + std::to_string(i));
  }
}

TEST_P(OpTest, SplitsItsBackwardIntoInputsAndWeights) {
  if (skips_gradient()) return;
  const auto tensors = inputs(DType::f64);
  const auto whole = analytic(leaves(tensors));
  for (size_t parameter = 0; parameter < tensors.size(); ++parameter) {
    if (!wants_gradient(tensors[parameter])) continue;
    auto vars = leaves(tensors);
    vars[parameter] = Var::parameter(tensors[parameter]);
    const Var y = op_case().run(vars);
    Backward backward(y, projection(y.value()));
    backward.run_inputs();
    EXPECT_FALSE(backward.take(vars[parameter]).defined()) << "a weight gradient came in the input pass";
    backward.run_weights();
    EXPECT_EQ(backward.take(vars[parameter]).to_vector(), whole[parameter].to_vector());
    for (size_t i = 0; i < vars.size(); ++i) {
      if (i != parameter && vars[i].node()) {
        EXPECT_EQ(backward.take(vars[i]).to_vector(), whole[i].to_vector());
      }
    }
  }
}

TEST_P(OpTest, AddsItsGradientToAnAccumulator) {
  if (skips_gradient()) return;
  constexpr double kStart = 0.5;
  const auto tensors = inputs(DType::f64);
  const auto whole = analytic(leaves(tensors));
  for (size_t parameter = 0; parameter < tensors.size(); ++parameter) {
    if (!wants_gradient(tensors[parameter])) continue;
    auto vars = leaves(tensors);
    vars[parameter] = Var::parameter(tensors[parameter]);
    vars[parameter].node()->accumulator = full(tensors[parameter].shape(), kStart, DType::f64, device());
    Values expected = whole[parameter].to_vector();
    for (double& value : expected) value += kStart;
    const auto computed = analytic(vars);
    EXPECT_TRUE(computed[parameter].shares_storage(vars[parameter].node()->accumulator));
    expect_near(computed[parameter].to_vector(), expected, 1e-12, "accumulator of input " + std::to_string(parameter));
  }
}

TEST_P(OpTest, GivesTheSameBitsForEveryNumberOfThreads) {
  if (skips_value() || !on_cpu()) return;
  const auto results = [&](int threads) {
    const auto device = make_device("cpu:0", {.threads = threads});
    const auto vars = leaves(placed_on(device));
    const Var y = op_case().run(vars);
    std::vector<std::vector<uint64_t>> all{bits_of(y.value())};
    if (op_case().gradient)
      for (const Tensor& gradient : analytic(vars))
        if (gradient.defined()) all.push_back(bits_of(gradient));
    return all;
  };
  EXPECT_EQ(results(1), results(3));
}

TEST_P(OpTest, CountsTheSameBytesAndCostOnMeta) {
  if (skips_value()) return;
  const auto measure = [&](const DevicePtr& device) {
    const auto placed = placed_on(device);
    const Cost before = device->counted();
    device->reset_peak();
    const Var y = op_case().run(leaves(placed));
    if (op_case().gradient) {
      Backward backward(y, empty_like(y.value()));
      backward.run();
    }
    const Cost cost = device->counted() - before;
    return std::tuple(y.shape().text(), device->peak_bytes(), cost.flops, cost.bytes_read, cost.bytes_written);
  };
  const auto counting = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = device()->kind()});
  EXPECT_EQ(measure(make_device(GetParam().device)), measure(counting));
}

TEST_P(OpTest, RefusesBadInput) {
  if (op_case().throws.empty()) return;
  const auto tensors = inputs(DType::f32);
  try {
    op_case().run(std::vector<Var>(tensors.begin(), tensors.end()));
    device()->synchronize();  // kernels of a GPU report later
    FAIL() << "no error; needed one with '" << op_case().throws << "'";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(op_case().throws), std::string::npos) << error.what();
  }
}

std::vector<PlacedCase> placed_cases() {
  std::vector<PlacedCase> result;
  for (const std::string device : {"cpu:0", "cuda:0"}) {
    if (device == "cuda:0" && !cuda_unavailable_reason().empty()) continue;
    for (const auto& named : all_cases()) result.push_back({named, device});
  }
  return result;
}

std::string name_of(const ::testing::TestParamInfo<PlacedCase>& info) {
  const auto& [named, device] = info.param;
  return named.op + "_" + named.value.name + (device == "cpu:0" ? "" : "_on_cuda");
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(placed_cases()), name_of);

}  // namespace
}  // namespace sluice::testing
