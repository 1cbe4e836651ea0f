#include "autograd/ops/concat.h"
#include "autograd/ops/drop_path.h"
#include "autograd/ops/reshape.h"
#include "core/distributions.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

const RandomStream kStream{.key = random_key(1, "drop_path_case"), .step = 3, .use = 2, .first_sample = 5};

Values masked(const Tensor& x, double keep, const Values& base) {
  Values y = x.to_vector();
  const int64_t n = x.elements() / std::max<int64_t>(1, x.dim(0));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool is_kept = uniform_from(kStream.words(0, static_cast<uint32_t>(i / n))[0]) >= 1 - keep;
    y[i] = base[i] + (is_kept ? y[i] / keep : 0);
  }
  return y;
}

auto expect_masked(double keep) {
  return [keep](const std::vector<Tensor>& x) { return masked(x[0], keep, x.size() > 1 ? x[1].to_vector() : Values(x[0].elements(), 0)); };
}

/// Samples [0, 3) and [3, 8) as micro-batches: their masks are slices of the mini-batch's.
Var in_micro_batches(const Var& x) {
  RandomStream second = kStream;
  second.first_sample += 3;
  return concat({drop_path(slice(x, 0, 0, 3), 0.6, kStream), drop_path(slice(x, 0, 3, 8), 0.6, second)}, 0);
}

}  // namespace

OP_CASES(drop_path) {
  const auto run = [](double keep) { return [keep](const auto& x) { return drop_path(x[0], keep, kStream); }; };
  add({.name = "odd", .inputs = {randn({9, 3, 5})}, .run = run(0.6), .expect = expect_masked(0.6)});
  add({.name = "packs", .inputs = {randn({9, 2, 32})}, .run = run(0.5), .expect = expect_masked(0.5), .gradient = false});
  add({.name = "several_chunks", .inputs = {randn({6, 70001})}, .run = run(0.5), .expect = expect_masked(0.5), .gradient = false});
  add({.name = "micro_batches",
       .inputs = {randn({8, 11})},
       .run = [](const auto& x) { return in_micro_batches(x[0]); },
       .expect = expect_masked(0.6)});
  add({.name = "all_kept",
       .inputs = {randn({2, 3})},
       .run = run(1),
       .expect = [](const auto& x) { return x[0].to_vector(); },
       .gradient = false});  // the leaf itself: nothing is recorded
  add({.name = "nothing", .inputs = {randn({0, 3})}, .run = run(0.7), .expect = expect_masked(0.7)});
  add({.name = "view", .inputs = {transposed(randn({3, 9}), 0, 1)}, .run = run(0.6), .expect = expect_masked(0.6)});
  add({.name = "none_kept", .inputs = {randn({2, 3})}, .run = run(0), .throws = "0 < keep <= 1"});
  add({.name = "no_samples", .inputs = {randn({})}, .run = run(0.5), .throws = "samples along axis 0"});
  add({.name = "amoebanet", .inputs = {randn({32, 28, 28, 128})}, .run = run(0.7), .bench = true});
}

OP_CASES(drop_path_add) {
  const auto run = [](double keep) { return [keep](const auto& x) { return drop_path_add(x[0], x[1], keep, kStream); }; };
  add({.name = "odd", .inputs = {randn({9, 15}), randn({9, 15})}, .run = run(0.6), .expect = expect_masked(0.6)});
  add({.name = "all_kept", .inputs = {randn({2, 3}), randn({2, 3})}, .run = run(1), .expect = expect_masked(1)});
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({3, 2})}, .run = run(0.7), .throws = "x and residual alike"});
  add({.name = "amoebanet", .inputs = {randn({32, 28, 28, 128}), randn({32, 28, 28, 128})}, .run = run(0.7), .bench = true});
}
