// examples/custom_op.cpp in libtorch.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

/// Calls f(i, channel) for all elements of x on several threads.
template <class F>
void each_element(const torch::Tensor& x, const torch::Tensor& a, const F& f) {
  const auto channels = a.numel();
  at::parallel_for(0, x.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i, i % channels);
  });
}

struct SnakeOp : torch::autograd::Function<SnakeOp> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, const torch::Tensor& a) {
    const auto from = x.contiguous(), rate = a.contiguous(), y = torch::empty_like(from);
    context->save_for_backward({from, rate});
    AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "snake", [&] {
      const auto *values = from.const_data_ptr<scalar_t>(), *rates = rate.const_data_ptr<scalar_t>();
      auto* out = y.mutable_data_ptr<scalar_t>();
      each_element(from, rate, [&](int64_t i, int64_t channel) {
        const double value = values[i], r = rates[channel], s = std::sin(r * value);
        out[i] = scalar_t(value + s * s / r);
      });
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list dy) {
    const auto saved = context->get_saved_variables();
    const auto &from = saved[0], &rate = saved[1];
    const auto gradient = dy[0].contiguous(), dx = torch::empty_like(from), da = torch::empty_like(from);
    AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "snake_backward", [&] {
      const auto *values = from.const_data_ptr<scalar_t>(), *rates = rate.const_data_ptr<scalar_t>();
      const auto* gradients = gradient.const_data_ptr<scalar_t>();
      auto *of_x = dx.mutable_data_ptr<scalar_t>(), *of_a = da.mutable_data_ptr<scalar_t>();
      each_element(from, rate, [&](int64_t i, int64_t channel) {
        const double value = values[i], r = rates[channel], g = gradients[i];
        const double s = std::sin(r * value), slope = std::sin(2 * r * value);
        of_x[i] = scalar_t(g * (1 + slope));
        of_a[i] = scalar_t(g * (value * slope / r - s * s / (r * r)));
      });
    });
    return {dx, da.sum_to_size(rate.sizes())};
  }
};

/// The op as a layer.
struct SnakeImpl : torch::nn::Module {
  torch::Tensor a;
  explicit SnakeImpl(int64_t channels) : a(register_parameter("a", torch::empty({channels}).uniform_(0.5, 4))) {}
  torch::Tensor forward(const torch::Tensor& x) { return SnakeOp::apply(x, a); }
};
TORCH_MODULE(Snake);

using Inputs = std::vector<torch::Tensor>;

/// Compares the gradients of f with central differences, of the sum of its result times fixed random weights.
void gradient_check(const std::function<torch::Tensor(const Inputs&)>& f, const Inputs& inputs) {
  for (const auto& x : inputs) x.requires_grad_();
  const auto y = f(inputs), weights = torch::randn_like(y);
  const auto found = torch::autograd::grad({y}, inputs, {weights});
  torch::NoGradGuard no_grad;
  for (size_t input = 0; input < inputs.size(); ++input) {
    const auto elements = inputs[input].view(-1), differences = torch::empty_like(elements);
    for (int64_t i = 0; i < elements.numel(); ++i) {
      elements[i] += 1e-6;
      const auto above = (f(inputs) * weights).sum();
      elements[i] -= 2e-6;
      differences[i] = (above - (f(inputs) * weights).sum()) / 2e-6;
      elements[i] += 1e-6;
    }
    const double scale = std::max(1.0, differences.abs().max().item<double>());
    const double error = (found[input].view(-1) - differences).abs().max().item<double>();
    TORCH_CHECK(error <= 2e-6 * scale, "the gradient of input ", input, " differs from central differences by ", error);
  }
}

torch::Tensor wave(const torch::Tensor& time) { return torch::sin(time * 3.0) + torch::cos(time * 5.0) * 0.5; }

int main() {
  torch::manual_seed(0);
  gradient_check([](const Inputs& x) { return SnakeOp::apply(x[0], x[1]); },
                 {torch::randn({4, 3}, torch::kDouble), torch::rand({3}, torch::kDouble) + 0.5});

  torch::nn::Sequential net(torch::nn::Linear(1, 64), Snake(64), torch::nn::Linear(64, 1));
  const auto seen = torch::rand({4096, 1}) * 6.0 - 3.0, later = torch::rand({512, 1}) + 3.0;
  torch::optim::Adam optimizer(net->parameters(), 1e-2);
  for (int step = 0; step < 3000; ++step) {
    const auto time = seen.index_select(0, torch::randint(4096, {256}));
    optimizer.zero_grad();
    torch::mse_loss(net->forward(time), wave(time)).backward();
    optimizer.step();
  }
  torch::NoGradGuard no_grad;
  std::printf("mean squared error beyond what was seen %.4f\n", torch::mse_loss(net->forward(later), wave(later)).item<double>());
}
