#include <algorithm>
#include <cmath>

#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double kScale = 0.25;

/// Targets that the test chooses, of an index dtype.
InputSpec targets(const Shape& shape, std::vector<double> elements, DType dtype = DType::i32) {
  return {[=] { return tensor_of(elements, shape, dtype); }};
}

/// The options with their class weights in the dtype and on the device that the logits ask for.
CrossEntropyOptions placed(CrossEntropyOptions options, const Tensor& logits) {
  const Tensor& w = options.weights;
  const DType dtype = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (w.defined()) options.weights = tensor_of(w.to_vector(), w.shape(), dtype, logits.device_ptr());
  return options;
}

double naive_loss(const std::vector<Tensor>& x, const CrossEntropyOptions& options) {
  const Values logits = x[0].to_vector(), target = x[1].to_vector();
  const int64_t n = x[0].dim(-1);
  const Values w = options.weights.defined() ? options.weights.to_vector() : Values(n, 1.0);
  double loss = 0;
  for (size_t row = 0; row < target.size(); ++row) {
    const auto t = static_cast<int64_t>(target[row]);
    if (t == options.ignore_index) continue;
    const auto z = logits.begin() + static_cast<int64_t>(row) * n;
    const double maximum = *std::max_element(z, z + n);
    double sum = 0;
    for (int64_t c = 0; c < n; ++c) sum += std::exp(z[c] - maximum);
    const auto nll = [&](int64_t c) { return maximum + std::log(sum) - z[c]; };
    loss += (1 - options.label_smoothing) * w[t] * nll(t);
    for (int64_t c = 0; c < n; ++c) loss += options.label_smoothing / static_cast<double>(n) * w[c] * nll(c);
  }
  return kScale * loss;
}

OpCase loss_case(std::string name, InputSpec logits, InputSpec target, const CrossEntropyOptions& options = {}) {
  return {.name = std::move(name),
          .inputs = {std::move(logits), std::move(target)},
          .run = [=](const std::vector<Var>& x) { return cross_entropy(x[0], x[1].value(), placed(options, x[0].value()), kScale); },
          .expect = [=](const std::vector<Tensor>& x) { return Values{naive_loss(x, options)}; }};
}

OpCase refused(OpCase value, std::string message) {
  value.throws = std::move(message);
  return value;
}

}  // namespace

OP_CASES(cross_entropy) {
  const Tensor weights = tensor_of({0.5, 2, 0, 1, 1.5}, {5});
  add(loss_case("small", randn({4, 7}), indices({4}, 7)));
  add(loss_case("tokens", randn({2, 3, 37}), indices({2, 3}, 37, DType::i64)));
  add(loss_case("one_row", randn({70}), targets({}, {69})));
  add(loss_case("one_class", randn({3, 1}), indices({3}, 1, DType::u8)));
  add(loss_case("no_rows", randn({0, 5}), indices({0}, 5)));
  add(loss_case("all_equal", constant({2, 9}, 1e4), indices({2}, 9)));
  add(loss_case("large_and_right", values({2, 3}, {1e4, -1e4, 0, -1e4, 1e4, -1e4}), targets({2}, {0, 1})));
  // The loss is 5,000: central differences lose four digits more.
  auto wrong =
      loss_case("large_and_wrong", values({2, 3}, {1e4, -1e4, 0, -1e4, 1e4, -1e4}), targets({2}, {1, 0}), {.label_smoothing = 0.1});
  wrong.tolerance_scale = 10;
  add(wrong);
  add(loss_case("ignored", randn({4, 5}), targets({4}, {1, -100, 4, -100})));
  add(loss_case("ignored_class", randn({4, 5}), targets({4}, {1, 3, 4, 3}), {.ignore_index = 3}));
  add(loss_case("all_ignored", randn({2, 5}), targets({2}, {-100, -100}), {.label_smoothing = 0.1}));
  add(loss_case("smoothed", randn({4, 5}), targets({4}, {1, -100, 4, 0}), {.label_smoothing = 0.1}));
  add(loss_case("weighted", randn({4, 5}), targets({4}, {1, -100, 4, 2}), {.weights = weights}));
  add(loss_case("smoothed_and_weighted", randn({4, 5}), targets({4}, {1, -100, 4, 2}), {.label_smoothing = 0.2, .weights = weights}));
  add(loss_case("views", transposed(randn({5, 3}), 0, 1), sliced(indices({5}, 5), 0, 1, 4)));

  add(refused(loss_case("target_too_large", randn({3, 5}), targets({3}, {1, 5, 9})), "got 5 at row 1"));
  add(refused(loss_case("target_negative", randn({3, 5}), targets({3}, {1, 2, -1})), "got -1 at row 2"));
  add(refused(loss_case("no_classes", randn({3, 0}), targets({3}, {1, 2, -1})), "V >= 1"));
  add(refused(loss_case("too_few_targets", randn({3, 5}), targets({2}, {1, 2})), "needs integer targets [3]"));
  add(refused(loss_case("floating_targets", randn({3, 5}), randn({3})), "needs integer targets [3]"));
  add(refused(loss_case("too_much_smoothing", randn({3, 5}), indices({3}, 5), {.label_smoothing = 1}), "label_smoothing in [0, 1)"));
  add(refused(loss_case("too_few_weights", randn({3, 6}), indices({3}, 6), {.weights = weights}), "class weights f32 [6]"));

  auto gpt = loss_case("gpt", randn({8, 256, 8192}), indices({8, 256}, 8192));
  gpt.bench = true;
  add(gpt);
}

/// A language model's last two ops: on GPUs the rows of the logits have a stride (core/ops/padded_rows.h).
OP_CASES(cross_entropy_of_linear) {
  const auto reference = [](const std::vector<Tensor>& x, const CrossEntropyOptions& options) {
    return naive_loss({linear(x[0], x[1], x.size() > 3 ? x[3] : Tensor()), x[2]}, options);
  };
  const auto check = [&](const std::string& name, const Shape& shape, int64_t width, const CrossEntropyOptions& options = {}) {
    const Shape rows = shape.without(-1);
    const std::vector<InputSpec> inputs{randn(shape), randn({width, shape[-1]}, 0.3), indices(rows, width), randn({width})};
    add({.name = name,  // the gradient takes the place of the logits, which nothing else holds
         .inputs = {inputs[0], inputs[1], inputs[2]},
         .run = [=](const std::vector<Var>& x) { return cross_entropy(linear(x[0], x[1]), x[2].value(), options, kScale); },
         .expect = [=](const std::vector<Tensor>& x) { return Values{reference(x, options)}; }});
    add({.name = name + "_used_twice",
         .inputs = inputs,
         .run =
             [=](const std::vector<Var>& x) {
               const Var logits = linear(x[0], x[1], x[3]);
               return sluice::add(cross_entropy(logits, x[2].value(), options, kScale), cross_entropy(logits, x[2].value(), {}, kScale));
             },
         .expect = [=](const std::vector<Tensor>& x) { return Values{reference(x, options) + reference(x, {})}; }});
  };
  check("width_1", {3, 4}, 1);
  check("width_7", {2, 3, 5}, 7);
  check("width_8", {2, 3, 5}, 8);
  check("width_9", {5, 8}, 9, {.label_smoothing = 0.1});
  check("width_131", {2, 35, 6}, 131);
  check("one_row", {6}, 131, {.label_smoothing = 0.1});
  check("no_rows", {0, 4}, 7);
}

/// Logits whose rows are packed, or have a stride that allows 16-byte accesses, or one that does not.
OP_CASES(cross_entropy_of_strided_rows) {
  constexpr int64_t kRows = 3, kClasses = 131;
  const auto gradient_into = [](const Tensor& logits, const Tensor& targets, const Tensor& dlogits) {
    const auto [loss, row_sums] = sluice::cross_entropy(logits, targets);
    cross_entropy_backward_into(full({}, 1, loss.dtype(), loss.device_ptr()), logits, targets, row_sums, {}, 1, dlogits);
  };
  for (const int64_t stride : {139, 144}) {
    const std::vector<InputSpec> inputs{randn({kRows, stride}), indices({kRows}, kClasses)};
    add({.name = "same_bits_from_stride_" + std::to_string(stride),
         .inputs = inputs,
         .run =
             [=](const std::vector<Var>& x) {
               const Tensor logits = x[0].value().slice(1, 0, kClasses), strided = empty_like(logits), packed = empty_like(logits);
               gradient_into(logits, x[1].value(), strided);
               gradient_into(logits.contiguous(), x[1].value(), packed);
               return Var(sub(strided, packed));
             },
         .expect = [=](const std::vector<Tensor>&) { return Values(kRows * kClasses, 0.0); },
         .gradient = false,
         .tolerance_scale = 0});
    add({.name = "nothing_between_rows_of_stride_" + std::to_string(stride),
         .inputs = inputs,
         .run =
             [=](const std::vector<Var>& x) {
               const Tensor whole = x[0].value().clone(), logits = whole.slice(1, 0, kClasses);
               gradient_into(logits, x[1].value(), logits);
               return Var(whole.slice(1, kClasses, stride));
             },
         .expect = [=](const std::vector<Tensor>& x) { return x[0].slice(1, kClasses, stride).to_vector(); },
         .gradient = false,
         .tolerance_scale = 0});
    add({.name = "ignored_rows_are_not_read_of_stride_" + std::to_string(stride),
         .inputs = {inputs[0], targets({kRows}, {1, -100, 130})},
         .run =
             [=](const std::vector<Var>& x) {
               const Tensor whole = x[0].value().clone(), ignored = whole.slice(0, 1, 2), logits = whole.slice(1, 0, kClasses);
               sluice::fill(ignored, NAN);
               gradient_into(logits, x[1].value(), logits);
               return Var(ignored.slice(1, 0, kClasses));
             },
         .expect = [=](const std::vector<Tensor>&) { return Values(kClasses, 0.0); },
         .gradient = false,
         .tolerance_scale = 0});
  }
}

OP_CASES(cross_entropy_weight) {
  const auto weight_case = [&](std::string name, InputSpec target, const CrossEntropyOptions& options, double expected) {
    add({.name = std::move(name),
         .inputs = {std::move(target)},
         .run = [=](const std::vector<Var>& x) { return Var(full({}, cross_entropy_weight(x[0].value(), options), DType::f64)); },
         .expect = [=](const std::vector<Tensor>&) { return Values{expected}; },
         .gradient = false});
  };
  const Tensor weights = tensor_of({0.5, 2, 0}, {3});
  weight_case("unweighted", targets({2, 2}, {1, -100, 2, 0}), {}, 3);
  weight_case("weighted", targets({4}, {1, -100, 2, 0}), {.weights = weights}, 2.5);
  weight_case("no_targets", targets({0}, {}), {}, 0);
  weight_case("all_ignored", targets({2}, {7, 7}, DType::i64), {.ignore_index = 7}, 0);
  add({.name = "target_too_large",
       .inputs = {targets({1}, {3})},
       .run = [=](const auto& x) { return Var(full({}, cross_entropy_weight(x[0].value(), {.weights = weights}))); },
       .throws = "got 3 at row 0"});
}
