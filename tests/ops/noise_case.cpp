#include <cmath>
#include <numbers>

#include "autograd/ops/concat.h"
#include "autograd/ops/operators.h"
#include "core/distributions.h"
#include "core/ops/noise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

const RandomStream kStream{.key = random_key(1, "noise_case"), .step = 3, .use = 2, .first_sample = 5};

double expected(Noise kind, const std::array<uint32_t, 4>& words, int64_t i) {
  if (kind == Noise::uniform) return uniform_from(words[i]);
  const double radius = std::sqrt(-2 * std::log((words[i / 2 * 2] + 1.0) / 4294967296.0));
  const double angle = 2 * std::numbers::pi * words[i / 2 * 2 + 1] / 4294967296.0;
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

Var noise_like(Noise kind, const Var& x, const RandomStream& stream) {
  return noise(kind, x.shape(), stream, x.dtype(), x.value().device_ptr());
}

/// x + noise, so that the case has an input.
auto added(Noise kind) {
  return [kind](const std::vector<Var>& x) { return x[0] + noise_like(kind, x[0], kStream); };
}

auto expect_added(Noise kind) {
  return [kind](const std::vector<Tensor>& x) {
    Values y = x[0].to_vector();
    const int64_t n = x[0].elements() / std::max<int64_t>(1, x[0].dim(0));
    for (int64_t i = 0; i < x[0].elements(); ++i) y[i] += expected(kind, kStream.words(i % n / 4, static_cast<uint32_t>(i / n)), i % n % 4);
    return y;
  };
}

/// Samples [0, 1) and [1, 4) as micro-batches: their numbers are those of the mini-batch.
Var in_micro_batches(const Var& x) {
  RandomStream second = kStream;
  second.first_sample += 1;
  const Tensor first = x.value().slice(0, 0, 1), others = x.value().slice(0, 1, 4);
  return x + concat({noise_like(Noise::normal, first, kStream), noise_like(Noise::normal, others, second)}, 0);
}

}  // namespace

OP_CASES(noise) {
  const auto with = [&](const char* name, const Shape& shape, Noise kind) {
    add({.name = name, .inputs = {randn(shape)}, .run = added(kind), .expect = expect_added(kind), .gradient = false});
  };
  with("odd", {3, 5, 7}, Noise::normal);
  with("odd_uniform", {3, 5, 7}, Noise::uniform);
  with("several_chunks", {2, 9001}, Noise::normal);
  with("sample_of_one_number", {6}, Noise::normal);
  with("nothing", {0, 3}, Noise::normal);
  with("no_elements", {3, 0}, Noise::uniform);
  add({.name = "micro_batches",
       .inputs = {randn({4, 33})},
       .run = [](const auto& x) { return in_micro_batches(x[0]); },
       .expect = expect_added(Noise::normal),
       .gradient = false});
  add({.name = "no_samples",
       .inputs = {randn({})},
       .run = [](const auto& x) { return noise_like(Noise::normal, x[0], kStream); },
       .throws = "samples along axis 0"});
  add({.name = "images",
       .inputs = {randn({128, 784})},
       .run = [](const auto& x) { return noise_like(Noise::normal, x[0], kStream); },
       .bench = true});
}
