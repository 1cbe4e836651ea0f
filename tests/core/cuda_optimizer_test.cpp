// Optimizer steps on a GPU follow the CPU's, over lists that take several launches.
#include <cmath>

#include "core/ops/adafactor_step.h"
#include "core/ops/copy.h"
#include "core/ops/optimizer_step.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"

namespace sluice {
namespace {

/// Slots of many sizes: none, tails, several chunks, addresses that allow no packs, f64 among f32, working copies of both roundings.
std::vector<OptimizerSlot> slots_on(const DevicePtr& device, int count, size_t states) {
  std::vector<OptimizerSlot> slots;
  for (int i = 0; i < count; ++i) {
    const int64_t elements = i == 3 ? 20003 : i == 4 ? 8192 : i * 5 % 43, shift = i % 3 == 1 ? 1 : 0;
    const DType dtype = i % 7 == 6 ? DType::f64 : DType::f32;
    const auto array = [&](const char* what, DType of) { return named_normal(join(what, i), elements, of, device, shift); };
    OptimizerSlot slot{array("parameter", dtype), array("gradient", dtype), {}, i % 2 == 0};
    for (size_t k = 0; k < states; ++k) {
      slot.states.push_back(array("state", dtype));
      fill(slot.states.back(), 0.5);
    }
    if (dtype == DType::f32 && i % 4 != 0) slot.working = array("working", DType::bf16);
    if (slot.working.defined() && i % 2 == 1) slot.stochastic = RandomStream{random_key(5, join("slot", i)), 2};
    slots.push_back(slot);
  }
  return slots;
}

void expect_near(const Tensor& ours, const Tensor& reference, const std::string& what) {
  const auto a = ours.to_vector(), b = reference.to_vector();
  ASSERT_EQ(a.size(), b.size());
  const double tolerance = testing::tolerance_of(ours.dtype()).value;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << ", element " << i;
}

/// The copy must be the rounding of the weights beside it, bit for bit as the CPU rounds them.
void expect_rounded(const OptimizerSlot& slot, const std::string& what) {
  const Tensor weights = slot.parameter.to(default_device()), expected = empty(weights.shape(), DType::bf16);
  if (slot.stochastic)
    round_stochastically(weights, expected, *slot.stochastic);
  else
    copy(weights, expected);
  EXPECT_EQ(slot.working.to_vector(), expected.to_vector()) << what;
}

template <class Step>
void expect_steps_as_the_cpu(int count, size_t states, double largest_norm, const Step& step) {
  const auto gpu = make_device("cuda:0");
  const auto stepped = [&](const DevicePtr& device) {
    auto slots = slots_on(device, count, states);
    step(slots, GradientClip{full({}, 16, DType::f64, device), largest_norm});
    return slots;
  };
  const auto ours = stepped(gpu), reference = stepped(default_device());
  for (int i = 0; i < count; ++i) {
    const std::string what = join("slot ", i);
    expect_near(ours[i].parameter, reference[i].parameter, what);
    for (size_t k = 0; k < states; ++k) expect_near(ours[i].states[k], reference[i].states[k], join(what, ", state ", k));
    if (ours[i].working.defined()) expect_rounded(ours[i], what);
  }
}

const AdamStep kAdam{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.2, .decoupled = true, .step = 3};

using CudaOptimizer = CudaTest;

TEST_F(CudaOptimizer, StepsAHundredParametersOfAdamAsTheCpuDoes) {
  expect_steps_as_the_cpu(100, 2, 0, [](const auto& slots, const auto& clip) { adam_step(slots, kAdam, clip); });
}

TEST_F(CudaOptimizer, AddsWeightDecayToTheGradientOfAdam) {
  AdamStep step = kAdam;
  step.decoupled = false;
  expect_steps_as_the_cpu(8, 2, 0, [&](const auto& slots, const auto& clip) { adam_step(slots, step, clip); });
}

TEST_F(CudaOptimizer, StepsRmsPropAsTheCpuDoes) {
  expect_steps_as_the_cpu(8, 2, 1, [](const auto& slots, const auto& clip) { rmsprop_step(slots, {0.1, 0.9, 0.8, 1e-3, 0.2}, clip); });
}

TEST_F(CudaOptimizer, StepsRmsPropWithoutMomentumAndAdamWithoutBeta1OnOneState) {
  expect_steps_as_the_cpu(100, 1, 1, [](const auto& slots, const auto& clip) { rmsprop_step(slots, {0.1, 0.9, 0, 1e-3, 0.2}, clip); });
  AdamStep step = kAdam;
  step.beta1 = 0;
  expect_steps_as_the_cpu(8, 1, 1, [&](const auto& slots, const auto& clip) { adam_step(slots, step, clip); });
}

TEST_F(CudaOptimizer, StepsLionAsTheCpuDoes) {
  expect_steps_as_the_cpu(100, 1, 1, [](const auto& slots, const auto& clip) { lion_step(slots, {0.1, 0.9, 0.99, 0.2}, clip); });
}

/// Matrices, vectors and more axes, of rows and columns that no pack fits, several chunks of elements and parts of rows.
std::vector<OptimizerSlot> adafactor_slots_on(const DevicePtr& device) {
  std::vector<OptimizerSlot> slots;
  for (const Shape& shape : {Shape{37}, {5, 7}, {1, 9}, {9, 1}, {3, 4, 6}, {130, 70}, {9001}, {300, 33}, {}, {0, 4}}) {
    const int i = static_cast<int>(slots.size());
    const DType dtype = i % 4 == 3 ? DType::f64 : DType::f32;
    const auto array = [&](const char* what, DType of) {
      return named_normal(join(what, i), shape.elements(), of, device, i % 3 == 1 ? 1 : 0).reshape(shape);
    };
    OptimizerSlot slot{array("parameter", dtype), array("gradient", dtype), {}, i % 2 == 0};
    for (const Shape& of : adafactor_state_shapes(shape)) slot.states.push_back(full(of, 0.5, dtype, device));
    if (dtype == DType::f32 && i != 4) slot.working = array("working", DType::bf16);
    if (slot.working.defined() && i % 2 == 1) slot.stochastic = RandomStream{random_key(5, join("slot", i)), 2};
    slots.push_back(slot);
  }
  return slots;
}

TEST_F(CudaOptimizer, StepsAdafactorAsTheCpuDoes) {
  const auto gpu = make_device("cuda:0");
  for (const double largest_norm : {0.0, 1.0}) {
    const auto stepped = [&](const DevicePtr& device) {
      auto slots = adafactor_slots_on(device);
      for (const int64_t step : {2, 3})
        adafactor_step(slots, {0.1, 0.8, 1e-3, 1, 0.2, step}, {full({}, 16, DType::f64, device), largest_norm});
      return slots;
    };
    const auto ours = stepped(gpu), reference = stepped(default_device());
    for (size_t i = 0; i < ours.size(); ++i) {
      const std::string what = join("slot ", i);
      expect_near(ours[i].parameter, reference[i].parameter, what);
      for (size_t k = 0; k < ours[i].states.size(); ++k) expect_near(ours[i].states[k], reference[i].states[k], join(what, ", state ", k));
      if (ours[i].working.defined()) expect_rounded(ours[i], what);
    }
  }
}

TEST_F(CudaOptimizer, ChangesNothingByAdafactorWhenTheNormIsNotFinite) {
  for (const auto& device : {make_device("cuda:0"), default_device()}) {
    const auto slots = adafactor_slots_on(device), untouched = adafactor_slots_on(device);
    for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)})
      adafactor_step(slots, {0.1, 0.8, 1e-3, 1, 0.2, 2}, {full({}, bad, DType::f64, device), 1});
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(slots[i].parameter.to_vector(), untouched[i].parameter.to_vector()) << "slot " << i;
      for (size_t k = 0; k < slots[i].states.size(); ++k)
        EXPECT_EQ(slots[i].states[k].to_vector(), untouched[i].states[k].to_vector()) << "slot " << i;
    }
  }
}

TEST_F(CudaOptimizer, ScalesGradientsOfTooLargeANorm) {
  expect_steps_as_the_cpu(8, 2, 1, [](const auto& slots, const auto& clip) { adam_step(slots, kAdam, clip); });
  expect_steps_as_the_cpu(8, 0, 1, [](const auto& slots, const auto& clip) { sgd_step(slots, {0.1, 0.2, 0, false}, clip); });
}

TEST_F(CudaOptimizer, StepsSgdWithAndWithoutMomentum) {
  expect_steps_as_the_cpu(100, 0, 0, [](const auto& slots, const auto& clip) { sgd_step(slots, {0.1, 0.2, 0, false}, clip); });
  expect_steps_as_the_cpu(8, 1, 0, [](const auto& slots, const auto& clip) { sgd_step(slots, {0.1, 0.2, 0.9, false}, clip); });
  expect_steps_as_the_cpu(8, 1, 0, [](const auto& slots, const auto& clip) { sgd_step(slots, {0.1, 0.2, 0.9, true}, clip); });
}

TEST_F(CudaOptimizer, ChangesNothingWhenTheNormIsNotFinite) {
  const auto gpu = make_device("cuda:0");
  const auto slots = slots_on(gpu, 8, 2), untouched = slots_on(gpu, 8, 2);
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)})
    for (const double largest_norm : {0.0, 1.0}) adam_step(slots, kAdam, {full({}, bad, DType::f64, gpu), largest_norm});
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(slots[i].parameter.to_vector(), untouched[i].parameter.to_vector()) << "slot " << i;
    for (int k = 0; k < 2; ++k) EXPECT_EQ(slots[i].states[k].to_vector(), untouched[i].states[k].to_vector()) << "slot " << i;
    if (slots[i].working.defined()) {
      EXPECT_EQ(slots[i].working.to_vector(), untouched[i].working.to_vector()) << "slot " << i;
    }
  }
}

/// A parameter stepped as a whole, and in two parts as two replicas do, with the same bits, random ones included.
void expect_the_same_bits_in_parts(const DevicePtr& device) {
  constexpr int64_t kElements = 9003, kCut = 4096;
  const auto slot_of = [&] {
    const auto array = [&](const char* what, DType dtype) { return named_normal(what, kElements, dtype, device).clone(); };
    OptimizerSlot slot{array("parameter", DType::f32), array("gradient", DType::f32), {array("m", DType::f32), array("v", DType::f32)}};
    fill(slot.states[1], 0.5);
    slot.working = array("working", DType::bf16);
    slot.stochastic = RandomStream{random_key(5, "parts"), 2};
    return slot;
  };
  const auto part_of = [](const OptimizerSlot& whole, int64_t first, int64_t end) {
    OptimizerSlot part = whole;
    for (Tensor* x : {&part.parameter, &part.gradient, &part.states[0], &part.states[1], &part.working}) *x = x->slice(0, first, end);
    part.first_element = first;
    return part;
  };
  const OptimizerSlot whole = slot_of(), parts = slot_of();
  adam_step({whole}, kAdam);
  adam_step({part_of(parts, 0, kCut), part_of(parts, kCut, kElements)}, kAdam);
  for (const auto part : {&OptimizerSlot::parameter, &OptimizerSlot::working})
    EXPECT_EQ((parts.*part).to_vector(), (whole.*part).to_vector());
  for (int state : {0, 1}) EXPECT_EQ(parts.states[state].to_vector(), whole.states[state].to_vector());
  fill(parts.working, 0);
  round_stochastically(parts.parameter.slice(0, kCut, kElements), parts.working.slice(0, kCut, kElements), *parts.stochastic, kCut);
  EXPECT_EQ(parts.working.slice(0, kCut, kElements).to_vector(), whole.working.slice(0, kCut, kElements).to_vector());
}

TEST(OptimizerSteps, HaveTheSameBitsInParts) { expect_the_same_bits_in_parts(default_device()); }

TEST_F(CudaOptimizer, HasTheSameBitsInParts) { expect_the_same_bits_in_parts(make_device("cuda:0")); }

TEST(OptimizerSteps, RefusePartsThatBeginWithinRandomBlocks) {
  const Tensor weights = zeros({16}), working = zeros({16}, DType::bf16);
  expect_error<UsageError>([&] { round_stochastically(weights, working, {1, 1}, 4); }, {"a multiple of 8, got 4"});
}

TEST_F(CudaOptimizer, RoundsWorkingCopiesStochasticallyAsTheCpuDoes) {
  const RandomStream stream{random_key(3, "rounding"), 4};
  for (const int64_t shift : {0, 1, 2})
    for (const int64_t elements : {0, 5, 4099}) {
      const auto rounded = [&](const DevicePtr& device) {
        const Tensor weights = named_normal("weights", elements, DType::f32, device, shift);
        const Tensor working = named_normal("working", elements, DType::bf16, device, shift);
        round_stochastically(weights, working, stream);
        return working.to_vector();
      };
      EXPECT_EQ(rounded(make_device("cuda:0")), rounded(default_device())) << elements << " elements, shifted by " << shift;
    }
}

}  // namespace
}  // namespace sluice
