#include "autograd/ops/concat.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/reshape.h"
#include "core/distributions.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

const RandomStream kStream{.key = random_key(1, "dropout_case"), .step = 3, .use = 2, .first_sample = 5};

Values masked(const Tensor& x, double p, const Values& base) {
  Values y = x.to_vector();
  const int64_t n = x.elements() / std::max<int64_t>(1, x.dim(0));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const uint32_t word = kStream.words(i % n / 4, static_cast<uint32_t>(i / n))[i % n % 4];
    y[i] = base[i] + (uniform_from(word) >= p ? y[i] / (1 - p) : 0);
  }
  return y;
}

auto expect_masked(double p) {
  return [p](const std::vector<Tensor>& x) { return masked(x[0], p, x.size() > 1 ? x[1].to_vector() : Values(x[0].elements(), 0)); };
}

/// Samples [0, 1) and [1, 4) as micro-batches: their masks are slices of the mini-batch's.
Var in_micro_batches(const Var& x) {
  RandomStream second = kStream;
  second.first_sample += 1;
  return concat({dropout(slice(x, 0, 0, 1), 0.3, kStream), dropout(slice(x, 0, 1, 4), 0.3, second)}, 0);
}

}  // namespace

OP_CASES(dropout) {
  const auto run = [](double p) { return [p](const auto& x) { return dropout(x[0], p, kStream); }; };
  add({.name = "odd", .inputs = {randn({3, 5, 7})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "several_registers", .inputs = {randn({2, 601})}, .run = run(0.5), .expect = expect_masked(0.5), .gradient = false});
  add({.name = "several_chunks", .inputs = {randn({2, 70001})}, .run = run(0.1), .expect = expect_masked(0.1), .gradient = false});
  add({.name = "micro_batches",
       .inputs = {randn({4, 33})},
       .run = [](const auto& x) { return in_micro_batches(x[0]); },
       .expect = expect_masked(0.3)});
  add({.name = "none",
       .inputs = {randn({2, 3})},
       .run = run(0),
       .expect = [](const auto& x) { return x[0].to_vector(); },
       .gradient = false});  // the leaf itself: nothing is recorded
  add({.name = "nothing", .inputs = {randn({0, 3})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "no_elements", .inputs = {randn({3, 0})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "view", .inputs = {transposed(randn({3, 4}), 0, 1)}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "misaligned", .inputs = {misaligned({3, 32})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "always", .inputs = {randn({2, 3})}, .run = run(1), .throws = "0 <= p < 1"});
  add({.name = "no_samples", .inputs = {randn({})}, .run = run(0.5), .throws = "samples along axis 0"});
  add({.name = "gpt", .inputs = {randn({8, 256, 384})}, .run = run(0.1), .bench = true});
}

OP_CASES(dropout_add) {
  const auto run = [](double p) { return [p](const auto& x) { return dropout_add(x[0], x[1], p, kStream); }; };
  add({.name = "odd", .inputs = {randn({3, 35}), randn({3, 35})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "none", .inputs = {randn({2, 3}), randn({2, 3})}, .run = run(0), .expect = expect_masked(0)});
  add({.name = "misaligned", .inputs = {randn({3, 32}), misaligned({3, 32})}, .run = run(0.3), .expect = expect_masked(0.3)});
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({3, 2})}, .run = run(0.3), .throws = "x and residual alike"});
  add({.name = "gpt", .inputs = {randn({8, 256, 384}), randn({8, 256, 384})}, .run = run(0.1), .bench = true});
}
