// examples/diffusion.cpp in libtorch.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int64_t kSide = 28, kTimeWidth = 64;

/// The share of an image's variance that is left at a time in [0, 1] (arXiv:2102.09672).
torch::Tensor kept(const torch::Tensor& time) { return torch::square(torch::cos((time + 0.008) * (M_PI / 2 / 1.008))); }

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t size) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).padding(size / 2).bias(false));
}

torch::nn::Sequential normed(int64_t in, int64_t out) {
  return torch::nn::Sequential(torch::nn::GroupNorm(8, in), torch::nn::SiLU(), convolution(in, out, 3));
}

/// Two convolutions with a residual connection; the time's features are added in between.
struct BlockImpl : torch::nn::Module {
  torch::nn::Sequential first, second;
  torch::nn::Linear time;
  torch::nn::Conv2d skip;

  BlockImpl(int64_t in, int64_t out)
      : first(normed(in, out)), second(normed(out, out)), time(kTimeWidth, out), skip(convolution(in, out, 1)) {
    register_module("first", first);
    register_module("time", time);
    register_module("second", second);
    register_module("skip", skip);
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& t) {
    const auto h = first->forward(x) + time(t).unsqueeze(2).unsqueeze(3);
    return skip(x) + second->forward(h);
  }
};
TORCH_MODULE(Block);

/// The noise of an image, by a U-Net of three levels.
struct UnetImpl : torch::nn::Module {
  torch::nn::Sequential waves{torch::nn::Linear(kTimeWidth, kTimeWidth), torch::nn::SiLU()}, last{normed(32, 1)};
  torch::nn::Conv2d first{convolution(1, 32, 3)};
  std::vector<Block> down, up;

  UnetImpl() {
    register_module("waves", waves);
    register_module("first", first);
    const int64_t widths[] = {32, 32, 64, 64};
    for (int i = 0; i < 3; ++i) {
      down.push_back(register_module("down" + std::to_string(i), Block(widths[i], widths[i + 1])));
      up.push_back(register_module("up" + std::to_string(i), Block(widths[i + 1] + widths[i], widths[i])));
    }
    register_module("last", last);
  }

  torch::Tensor forward(const torch::Tensor& image, const torch::Tensor& time) {
    const auto angle = time * torch::exp(torch::arange(kTimeWidth / 2) * 0.2);
    const auto t = waves->forward(torch::cat({torch::sin(angle), torch::cos(angle)}, 1));
    std::vector<torch::Tensor> levels{first(image)};
    for (int i = 0; i < 3; ++i) {
      const auto x = down[i](levels.back(), t);
      levels.push_back(i < 2 ? torch::avg_pool2d(x, 2) : x);
    }
    auto x = levels[3];
    for (int i = 2; i >= 0; --i) {
      x = up[i](torch::cat({x, levels[i]}, 1), t);
      if (i > 0) x = torch::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
    }
    return last->forward(x);
  }

  torch::Tensor loss(const torch::Tensor& image) {
    const auto noise = torch::randn_like(image), time = torch::rand({image.size(0), 1}), share = kept(time).view({-1, 1, 1, 1});
    return torch::mse_loss(forward(torch::sqrt(share) * image + torch::sqrt(1 - share) * noise, time), noise);
  }
};
TORCH_MODULE(Unet);

int main(int argc, char** argv) {
  const auto clothes = [&](torch::data::datasets::MNIST::Mode mode) {
    return torch::data::datasets::MNIST(argv[1], mode).images() * 2 - 1;
  };
  const auto train = clothes(torch::data::datasets::MNIST::Mode::kTrain), test = clothes(torch::data::datasets::MNIST::Mode::kTest);
  const int64_t training_steps = argc > 2 ? std::atoll(argv[2]) : 40, warmup_steps = 20;
  torch::manual_seed(0);
  Unet net, average;
  const auto weights = net->parameters(), averages = average->parameters();
  const auto follow = [&](double decay) {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < weights.size(); ++i) averages[i].lerp_(weights[i], 1 - decay);
  };
  follow(0);
  torch::optim::Adam optimizer(weights, 2e-3);
  for (int64_t step = 0; step < training_steps; ++step) {
    const double after = double(step - warmup_steps) / double(training_steps - warmup_steps);
    const double rate = step < warmup_steps ? double(step + 1) / warmup_steps : 0.5 * (1 + std::cos(M_PI * after));
    for (auto& group : optimizer.param_groups()) group.options().set_lr(2e-3 * rate);
    optimizer.zero_grad();
    net->loss(train.index_select(0, torch::randint(train.size(0), {64}))).backward();
    optimizer.step();
    follow(std::min(0.995, double(step + 2) / double(step + 11)));
  }
  torch::save(average, "diffusion.pt");

  torch::NoGradGuard no_grad;
  std::printf("loss %.3f\n", average->loss(test.slice(0, 0, 512)).item<double>());
  const int64_t images = 32, steps = 100;
  auto x = torch::randn({images, 1, kSide, kSide});
  for (int64_t i = steps; i > 0; --i) {
    const auto time = torch::full({images, 1}, 0.98 * double(i) / steps), later = torch::full({1}, 0.98 * double(i - 1) / steps);
    const double now = kept(time[0]).item<double>(), next = kept(later).item<double>();
    const auto image = torch::clamp((x - average(x, time) * std::sqrt(1 - now)) / std::sqrt(now), -1, 1);
    const double fresh = (1 - next) / (1 - now) * (1 - now / next);  // variance of the noise that is drawn anew (arXiv:2006.11239)
    const auto old = (x - image * std::sqrt(now)) / std::sqrt(1 - now);
    x = image * std::sqrt(next) + old * std::sqrt(1 - next - fresh) + torch::randn_like(x) * std::sqrt(fresh);
  }
  torch::save(x, "images.pt");
  std::printf("mean of the images made %.2f\n", x.mean().item<double>());
}
