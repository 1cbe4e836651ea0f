#include "autograd/ops/concat.h"
#include "autograd/ops/concat_sums.h"
#include "autograd/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A sum of two, one alone, and so on.
std::vector<SummedVar> parts_of(const std::vector<Var>& x) {
  std::vector<SummedVar> parts;
  bool is_sum = false;
  for (size_t i = 0; i < x.size(); i += is_sum ? 2 : 1) {
    is_sum = !is_sum && i + 1 < x.size();
    parts.push_back({x[i], is_sum ? x[i + 1] : Var()});
  }
  return parts;
}

void cases(const std::function<void(OpCase)>& add, bool relu) {
  const auto run = [relu](const std::vector<Var>& x) { return concat_sums(parts_of(x), relu); };
  // The fused op must be what its parts are, which have references of their own.
  const auto expect = [relu](const std::vector<Tensor>& x) {
    std::vector<Tensor> sums;
    for (const auto& [a, b] : parts_of({x.begin(), x.end()}))
      sums.push_back(b.value().defined() ? sluice::add(a.value(), b.value()) : a.value());
    const Tensor all = concat(sums, -1);
    return (relu ? sluice::relu(all) : all).to_vector();
  };
  const auto check = [&](const char* name, std::vector<InputSpec> inputs) {
    add({.name = name, .inputs = std::move(inputs), .run = run, .expect = expect});
  };
  check("one", {randn({3, 5})});
  check("one_sum", {randn({3, 5}), randn({3, 5})});
  check("vectors", {randn({3}), randn({3}), randn({4})});
  check("odd", {randn({2, 3, 7}), randn({2, 3, 7}), randn({2, 3, 19}), randn({2, 3, 1}), randn({2, 3, 1})});
  check("packs", {randn({5, 2, 16}), randn({5, 2, 16}), randn({5, 2, 8}), randn({5, 2, 32}), randn({5, 2, 32}), randn({5, 2, 24})});
  check("misaligned", {misaligned({3, 16}), randn({3, 16}), randn({3, 16})});
  check("views", {transposed(randn({16, 3}), 0, 1), sliced(randn({3, 32}), 1, 8, 24), transposed(randn({2, 3}), 0, 1)});
  check("no_rows", {randn({0, 4}), randn({0, 4}), randn({0, 2})});
  check("no_columns", {randn({3, 0}), randn({3, 0}), randn({3, 2}), randn({3, 0})});
  check("many_parts", std::vector<InputSpec>(100, randn({2, 3})));
  add({.name = "added_to_itself",
       .inputs = {randn({3, 16}), randn({3, 8})},
       .run =
           [relu](const std::vector<Var>& x) {
             return concat_sums({{x[0], x[0]}, {x[1]}}, relu);
           },
       .expect =
           [relu](const std::vector<Tensor>& x) {
             const Tensor all = concat({sluice::add(x[0], x[0]), x[1]}, -1);
             return (relu ? sluice::relu(all) : all).to_vector();
           }});
  const auto refuse = [&](const char* name, std::vector<InputSpec> inputs, const char* message) {
    add({.name = name, .inputs = std::move(inputs), .run = run, .throws = message});
  };
  refuse("other_rows", {randn({2, 3}), randn({2, 3}), randn({3, 3})}, "differ in the last axis only, got");
  refuse("other_rank", {randn({2, 3}), randn({2, 3}), randn({3})}, "differ in the last axis only, got");
  refuse("addends_that_differ", {randn({2, 3}), randn({2, 4})}, "addends of one shape and dtype");
  refuse("no_parts", {}, "at least one part");
  refuse("integers", {indices({2, 3}, 5)}, "of a floating dtype");
}

}  // namespace

OP_CASES(concat_sums) {
  cases(add, false);
  const auto run = [](const auto& x) { return concat_sums({{x[0], x[1]}, {x[2]}, {x[3], x[4]}, {x[5], x[6]}}); };
  const InputSpec image = randn({32, 8, 8, 64});
  add({.name = "amoebanet", .inputs = std::vector<InputSpec>(7, image), .run = run, .bench = true});
}
OP_CASES(concat_sums_relu) {
  cases(add, true);
  const auto run = [](const auto& x) { return concat_sums({{x[0], x[1]}, {x[2]}, {x[3], x[4]}, {x[5], x[6]}}, true); };
  const InputSpec image = randn({32, 8, 8, 64});
  add({.name = "amoebanet", .inputs = std::vector<InputSpec>(7, image), .run = run, .bench = true});
}
