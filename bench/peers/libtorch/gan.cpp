// examples/gan.cpp in libtorch.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

constexpr int64_t kNoise = 16, kWidth = 128;

torch::Tensor ring(int64_t samples) {
  const auto angle = torch::floor(torch::rand({samples}) * 8.0) * (M_PI / 4);
  return torch::stack({torch::cos(angle), torch::sin(angle)}, 1) * 2.0 + torch::randn({samples, 2}) * 0.05;
}

struct PlayersImpl : torch::nn::Module {
  torch::nn::Sequential generator{torch::nn::Linear(kNoise, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, kWidth),
                                  torch::nn::Tanh(), torch::nn::Linear(kWidth, 2)};
  torch::nn::Sequential discriminator{torch::nn::Linear(2, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(),
                                      torch::nn::Linear(kWidth, 1)};

  PlayersImpl() {
    register_module("generator", generator);
    register_module("discriminator", discriminator);
  }
};
TORCH_MODULE(Players);

int main() {
  torch::manual_seed(0);
  Players net;
  torch::optim::Adam of_generator(net->generator->parameters(), torch::optim::AdamOptions(1e-3).betas({0.5, 0.999}));
  torch::optim::Adam of_discriminator(net->discriminator->parameters(), torch::optim::AdamOptions(1e-3).betas({0.5, 0.999}));
  const auto judged = [&](const torch::Tensor& points) { return net->discriminator->forward(points + torch::randn_like(points) * 0.4); };
  for (int step = 0; step < 5000; ++step) {
    const auto made = net->generator->forward(torch::randn({256, kNoise}));
    of_discriminator.zero_grad();
    (torch::softplus(-judged(ring(256))) + torch::softplus(judged(made.detach()))).mean().backward();
    of_discriminator.step();
    of_generator.zero_grad();
    torch::softplus(-judged(made)).mean().backward();
    of_generator.step();
  }

  torch::NoGradGuard no_grad;
  const auto made = net->generator->forward(torch::randn({256, kNoise}));
  int found = 0;
  double near = 0;
  for (int cluster = 0; cluster < 8; ++cluster) {
    const double angle = cluster * M_PI / 4;
    const auto centre = torch::tensor({2 * std::cos(angle), 2 * std::sin(angle)});
    const double share = torch::sqrt(torch::square(made - centre).sum(1)).lt(0.3).to(torch::kFloat).mean().item<double>();
    found += share > 0.03, near += share;
  }
  std::printf("clusters %d of 8, points near one %.2f\n", found, near);
}
