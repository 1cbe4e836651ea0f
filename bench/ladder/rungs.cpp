#include "bench/ladder/rungs.h"

#include "bench/gpu_timing.h"
#include "bench/ladder/naive.h"
#include "core/ops/attention.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/softmax.h"

namespace sluice::ladder {

namespace {

using bench::noise;
using Answer = std::vector<Tensor>;

Cuda& cuda_of(const Tensor& x) {
  x.device().cuda().activate();
  return x.device().cuda();
}

Rung softmax_rung(const DevicePtr& device, DType dtype, const Size& size) {
  const Tensor x = noise({size.tokens, size.width}, dtype, device);
  const auto naive = [=] {
    const Tensor y = empty_like(x);
    softmax(cuda_of(x), x, y);
    return Answer{y};
  };
  return {"softmax", [=] { return Answer{sluice::softmax(x)}; }, naive};
}

Rung gelu_rung(const DevicePtr& device, DType dtype, const Size& size) {
  const Tensor x = noise({size.tokens, size.width}, dtype, device);
  const auto naive = [=] {
    const Tensor y = empty_like(x);
    gelu_tanh(cuda_of(x), x, y);
    return Answer{y};
  };
  return {"gelu_tanh", [=] { return Answer{unary(Unary::GeluTanh, x)}; }, naive};
}

void add_layer_norm(std::vector<Rung>& rungs, const DevicePtr& device, DType dtype, const Size& size) {
  const double epsilon = 1e-5;
  const Tensor x = noise({size.tokens, size.width}, dtype, device), dy = noise({size.tokens, size.width}, dtype, device);
  const Tensor gamma = noise({size.width}, dtype, device), beta = noise({size.width}, dtype, device);
  const NormalizedRows saved = sluice::layer_norm(x, gamma, beta, epsilon);
  const auto answer = [](const NormalizedRows& of) { return Answer{of.y, of.mean, of.rstd}; };
  const auto shipped = [=] { return answer(sluice::layer_norm(x, gamma, beta, epsilon)); };
  const auto naive = [=] {
    NormalizedRows rows;
    rows.y = empty_like(x);
    rows.mean = empty_like(saved.mean);
    rows.rstd = empty_like(saved.rstd);
    layer_norm(cuda_of(x), x, gamma, beta, epsilon, rows);
    return answer(rows);
  };
  rungs.push_back({"layer_norm", shipped, naive});

  const auto shipped_backward = [=] {
    const auto gradients = normalization_backward(dy, x, gamma, saved.mean, saved.rstd, {});
    return Answer{gradients.x, gradients.gamma, gradients.beta};
  };
  const auto naive_backward = [=] {
    const auto weights = [&] { return empty(gamma.shape(), compute_dtype(dtype), device); };
    const NormalizationGradients gradients{empty_like(x), weights(), weights()};
    layer_norm_backward(cuda_of(x), dy, x, gamma, saved.mean, saved.rstd, gradients);
    return Answer{gradients.x, gradients.gamma, gradients.beta};
  };
  rungs.push_back({"layer_norm_backward", shipped_backward, naive_backward});
}

/// Targets spread over all classes.
Tensor targets(int64_t rows, int64_t classes, const DevicePtr& device) {
  std::vector<double> elements;
  for (int64_t row = 0; row < rows; ++row) elements.push_back(static_cast<double>(row * 7919 % classes));
  return tensor_of(elements, {rows}, DType::i32, device);
}

void add_cross_entropy(std::vector<Rung>& rungs, const DevicePtr& device, DType dtype, const Size& size) {
  const Tensor logits = noise({size.rows, size.classes}, dtype, device), classes = targets(size.rows, size.classes, device);
  const DType loss_dtype = compute_dtype(dtype);
  const auto naive = [=] {
    const Tensor row_losses = empty({size.rows}, loss_dtype, device), loss = empty({}, loss_dtype, device);
    cross_entropy(cuda_of(logits), logits, classes, row_losses, loss);
    return Answer{loss};
  };
  rungs.push_back({"cross_entropy", [=] { return Answer{sluice::cross_entropy(logits, classes).loss}; }, naive});

  const Tensor one = full({}, 1, loss_dtype, device), row_sums = sluice::cross_entropy(logits, classes).row_sums;
  const auto shipped_backward = [=] { return Answer{sluice::cross_entropy_backward(one, logits, classes, row_sums, {}, 1)}; };
  const auto naive_backward = [=] {
    const Tensor dlogits = empty_like(logits);
    cross_entropy_backward(cuda_of(logits), logits, classes, dlogits);
    return Answer{dlogits};
  };
  rungs.push_back({"cross_entropy_backward", shipped_backward, naive_backward});
}

Rung attention_rung(const DevicePtr& device, DType dtype, const Size& size) {
  const Shape shape{1, size.context, size.heads, size.head_width};
  const Tensor q = noise(shape, dtype, device), k = scale(q, 0.5), v = noise(shape, dtype, device);
  const auto naive = [=] {
    const Tensor y = empty_like(q);
    causal_attention(cuda_of(q), q, k, v, y);
    return Answer{y};
  };
  return {"attention", [=] { return Answer{attention(q, k, v, {.causal = true})}; }, naive};
}

/// f32 weights with a bf16 copy, as training in bf16 has them; without it for other dtypes.
Rung adam_rung(const DevicePtr& device, DType dtype, const Size& size) {
  const DType master = compute_dtype(dtype);
  const auto slot = [=] {
    const Shape shape{size.tokens, size.width};
    const Tensor working = dtype == DType::bf16 ? empty(shape, dtype, device) : Tensor();
    return OptimizerSlot{.parameter = noise(shape, master, device),
                         .gradient = noise(shape, master, device),
                         .states = {zeros(shape, master, device), zeros(shape, master, device)},
                         .working = working};
  };
  const AdamStep step{
      .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .decoupled = true, .step = 1};
  const auto answer = [](const OptimizerSlot& of) { return Answer{of.parameter, of.states[0], of.states[1]}; };
  const auto shipped = [=, of = slot()] {
    sluice::adam_step({of}, step);
    return answer(of);
  };
  const auto naive = [=, of = slot()] {
    adam_step(cuda_of(of.parameter), of, step);
    return answer(of);
  };
  return {"adam_step", shipped, naive};
}

}  // namespace

std::vector<Rung> rungs(const DevicePtr& device, DType dtype, const Size& size) {
  std::vector<Rung> all{softmax_rung(device, dtype, size), gelu_rung(device, dtype, size)};
  add_layer_norm(all, device, dtype, size);
  add_cross_entropy(all, device, dtype, size);
  all.push_back(attention_rung(device, dtype, size));
  all.push_back(adam_rung(device, dtype, size));
  return all;
}

double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 1e-2 : dtype == DType::f32 ? 1e-4 : 1e-12; }

}  // namespace sluice::ladder
