// Runs every op case: value against the reference, gradient against central differences, split backward, and the meta device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "autograd/backward.h"
#include "autograd/gradient_check.h"
#include "core/cuda/cuda.h"
#include "core/cuda/tuned.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/bits.h"
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

/// With SLUICE_CUDNN=1 cuDNN serves all that it can, which takes trials.
class Tuned : public ::testing::Environment {
 public:
  void SetUp() override {
    if (const char* value = std::getenv("SLUICE_CUDNN"); value && *value == '1') scope_.emplace(limits_of(Tuning::full));
  }
  void TearDown() override { scope_.reset(); }

 private:
  std::optional<TuningScope> scope_;
};
const auto* const kTuned = ::testing::AddGlobalTestEnvironment(new Tuned);

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

  /// Beside device(): on a machine with one GPU, another queue of its work.
  DevicePtr other_device() const {
    if (on_cpu()) return make_device("cpu:1");
    static const DevicePtr other_gpu = make_device("cuda:0");
    return other_gpu;
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

  /// Gradients of sum(y * weight) for a fixed random weight, of which `as` may make a view.
  std::vector<Tensor> analytic(const std::vector<Var>& vars, Tensor (*as)(const Tensor&) = nullptr) const {
    const Var y = op_case().run(vars);
    const Tensor dy = projection(y.value());
    Backward backward(y, as ? as(dy) : dy);
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
  const auto tensors = inputs(DType::f64), found = analytic(leaves(tensors));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].defined(), wants_gradient(tensors[i])) << "input " << i;
  const auto run = [&](const std::vector<Var>& x) { return op_case().run(x); };
  EXPECT_NO_THROW(gradient_check(run, tensors, {.tolerance = tolerance_of(DType::f64).gradient * op_case().tolerance_scale}));
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

TEST_P(OpTest, SplitsItsBackwardIntoInputsAndWeightsOfTheSameBits) {
  if (skips_gradient()) return;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && !op_case().low_precision) continue;
    const auto tensors = inputs(dtype);
    for (size_t parameter = 0; parameter < tensors.size(); ++parameter) {
      if (!wants_gradient(tensors[parameter])) continue;
      auto vars = leaves(tensors);
      vars[parameter] = Var::parameter(tensors[parameter]);
      const auto whole = analytic(vars);
      const Var y = op_case().run(vars);
      Backward backward(y, projection(y.value()));
      backward.run_inputs();
      EXPECT_FALSE(backward.take(vars[parameter]).defined()) << "a weight gradient came in the input pass";
      backward.run_weights();
      for (size_t i = 0; i < vars.size(); ++i)
        if (vars[i].node()) {
          EXPECT_EQ(bits_of(backward.take(vars[i])), bits_of(whole[i])) << name_of(dtype) << " gradient of input " << i;
        }
    }
  }
}

TEST_P(OpTest, AddsToAnAccumulatorInTheWeightPassAlone) {
  if (skips_gradient()) return;
  const auto tensors = inputs(DType::f32);
  const auto with_accumulators = [&] {  // all parameters but the first floating input, so that some are several at once
    auto vars = leaves(tensors, true);
    for (size_t i = 0; i < vars.size(); ++i) {
      if (!vars[i].node()) continue;
      if (&vars[i] == &*std::ranges::find_if(vars, [](const Var& var) { return var.node() != nullptr; }) && vars.size() > 1)
        vars[i] = Var::input(tensors[i]);
      else
        vars[i].node()->accumulator = full(tensors[i].shape(), 0.1, DType::f32, device());
    }
    return vars;
  };
  const auto vars = with_accumulators();
  const auto whole = analytic(with_accumulators());
  const Var y = op_case().run(vars);
  Backward backward(y, projection(y.value()));
  backward.run_inputs();
  for (const Var& var : vars)
    if (var.node() && var.node()->accumulator.defined()) {
      EXPECT_EQ(bits_of(var.node()->accumulator), bits_of(full(var.shape(), 0.1, DType::f32, device())));
    }
  backward.run_weights();
  for (size_t i = 0; i < vars.size(); ++i)
    if (vars[i].node()) {
      EXPECT_EQ(bits_of(backward.take(vars[i])), bits_of(whole[i])) << "input " << i;
    }
}

/// Of the ops that defer, by parameter: the inputs that its gradient reads beside dy. All others, and of other parameters, make the
/// gradients in I.
const std::map<std::string, std::map<size_t, std::vector<size_t>>>& deferring_ops() {
  static const std::map<size_t, std::vector<size_t>> factors{{0, {1}}, {1, {0}}}, product{{0, {1}}, {1, {0}}, {2, {}}};
  static const std::map<std::string, std::map<size_t, std::vector<size_t>>> ops{
      {"linear", product},           {"linear_activation", factors},
      {"matmul", product},           {"convolution", product},
      {"depthwise", product},        {"embedding", {{1, {0}}}},
      {"conv_transpose2d", product}, {"factorized_reduction", {{0, {1, 2}}, {1, {0}}, {2, {0}}}}};
  return ops;
}

/// What a split backward of an op may keep between its passes for one parameter, and the operations of both.
struct Deferral {
  int64_t bytes = 0;
  double flops = 0;
};

Deferral declared_deferral(const NamedCase& named, const std::vector<Var>& vars, size_t parameter, const Tensor& dy) {
  Backward backward(named.value.run(vars), dy);
  const auto recorded = dy.device().counted();
  backward.run();
  const Tensor gradient = backward.take(vars[parameter]);
  Deferral all{0, (dy.device().counted() - recorded).flops};
  const auto found = deferring_ops().find(named.op);
  const bool defers = found != deferring_ops().end() && found->second.contains(parameter);
  const Tensor& made = gradient.shares_storage(dy) ? dy : gradient;
  all.bytes = Device::charged_size(defers ? dy.bytes() : made.bytes());
  if (!defers) return all;
  for (const Var& var : vars)  // lengths, which say what rows count
    if (named.op == "linear" && !is_floating(var.dtype())) all.bytes += Device::charged_size(var.value().bytes());
  for (size_t input : found->second.at(parameter))  // a view keeps the whole
    all.bytes +=
        Device::charged_size(named.value.inputs[input].make().elements() * static_cast<int64_t>(size_of(vars[input].value().dtype())));
  return all;
}

TEST_P(OpTest, KeepsBetweenThePassesWhatTheWeightGradientReadsAndMakesNothingTwice) {
  // Of several ops, whose dy is not the case's.
  static const std::set<std::string> composed{"cross_entropy_of_linear", "dilated_convolution", "einsum", "recurrent_last_states"};
  if (skips_gradient() || composed.contains(GetParam().named.op)) return;
  for (size_t parameter = 0; parameter < op_case().inputs.size(); ++parameter) {
    const int64_t before = device()->live_bytes();
    auto tensors = inputs(DType::f32);
    if (!wants_gradient(tensors[parameter])) continue;
    auto vars = leaves(tensors);
    vars[parameter] = Var::parameter(tensors[parameter]);
    const NodePtr leaf = vars[parameter].node();

    Var y = op_case().run(vars);
    if (!y.node()->reaches_data) continue;  // nothing passes here in I
    Tensor dy = projection(y.value());
    const Deferral expected = declared_deferral(GetParam().named, vars, parameter, dy);
    Backward backward(y, dy);
    const Cost start = device()->counted();
    backward.run_inputs();
    for (const Var& var : vars)
      if (var.node()) backward.take(var);
    vars.clear();
    tensors.clear();
    y = dy = Tensor();
    EXPECT_EQ(device()->live_bytes() - before, expected.bytes) << "parameter " << parameter;
    backward.run_weights();
    EXPECT_EQ((device()->counted() - start).flops, expected.flops) << "parameter " << parameter;
    EXPECT_TRUE(backward.take(leaf).defined());
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

/// The same elements in every second place of the last axis, among others that no op may read: NaN, or an index far outside.
Tensor spread(const Tensor& x) {
  if (x.rank() == 0 || x.elements() == 0) return x;
  const Shape wide = x.shape().without(-1).appended(2 * x.dim(-1));
  const Tensor whole = empty(wide, x.dtype(), x.device_ptr());
  fill(whole, is_floating(x.dtype()) ? std::nan("") : x.dtype() == DType::u8 ? 255 : 1 << 30);
  const Tensor view = whole.slice(-1, 0, kEnd, 2);
  copy(x, view);
  return view;
}

/// Views of parameters, of options' tensors and of gradients come from users as well as views of data.
TEST_P(OpTest, ReadsStridedInputsAsTheirCopies) {
  if (skips_value()) return;
  std::vector<Tensor> whole, strided;
  for (const auto& x : inputs(DType::f64)) {
    whole.push_back(x.contiguous());
    strided.push_back(spread(x));
  }
  const auto run = [&](const std::vector<Tensor>& from) { return op_case().run(std::vector<Var>(from.begin(), from.end())).value(); };
  try {
    expect_near(run(strided).to_vector(), run(whole).to_vector(), 1e-12, "value");
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("contiguous"), std::string::npos) << "an op may refuse views, and says so: " << error.what();
    return;
  }
  if (!op_case().gradient) return;
  const auto expected = analytic(leaves(whole)), computed = analytic(leaves(strided), spread);
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i].defined()) expect_near(computed[i].to_vector(), expected[i].to_vector(), 1e-12, join("gradient of input ", i));
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

/// Expects an error that names two devices.
template <class Work>
void expect_both_devices(const Work& work, const Device& first, const Device& second, const std::string& what) {
  try {
    work();
    ADD_FAILURE() << "no error for " << what << " on another device";
  } catch (const UsageError& error) {
    for (const auto& name : {first.name(), second.name()})
      EXPECT_NE(std::string(error.what()).find("on " + name), std::string::npos) << what << ": " << error.what();
  }
}

TEST_P(OpTest, RefusesOperandsOnTwoDevices) {
  if (skips_value()) return;
  const std::string kind = on_cpu() ? "cpu" : "cuda";
  for (const auto& [here, there] : {std::pair{device(), other_device()}, {make_device("meta:0"), make_device("meta:1")}}) {
    std::vector<Tensor> tensors;
    for (const auto& x : inputs(DType::f32)) tensors.push_back(here->kind() == DeviceKind::meta ? empty(x.shape(), x.dtype(), here) : x);
    for (size_t which = 0; tensors.size() > 1 && which < tensors.size(); ++which) {
      auto moved = tensors;
      moved[which] = moved[which].to(there);
      expect_both_devices([&] { op_case().run(leaves(moved)); }, *here, *there, join("input ", which));
    }
    if (!op_case().gradient) continue;
    const Var y = op_case().run(leaves(tensors));
    const Tensor dy = empty_like(y.value()).to(there);
    expect_both_devices([&] { Backward(y, dy); }, *here, *there, "the gradient");
    Needs needs;
    for (size_t i = 0; i < y.node()->inputs.size(); ++i)
      if (y.node()->inputs[i]) needs.add(i);
    if (std::ranges::any_of(y.node()->saved, [](const Tensor& x) { return x.defined() && x.elements() > 0; }))
      expect_both_devices([&] { y.node()->backward(*y.node(), dy, needs); }, *here, *there, "the gradient in the op");
  }
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
