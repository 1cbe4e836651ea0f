// examples/vae.cpp in libtorch.
#include <torch/torch.h>

#include <cstdio>

constexpr int64_t kPixels = 28 * 28, kCode = 16;

struct VaeImpl : torch::nn::Module {
  torch::nn::Sequential encoder{torch::nn::Linear(kPixels, 256), torch::nn::ReLU(), torch::nn::Linear(256, 2 * kCode)};
  torch::nn::Sequential decoder{torch::nn::Linear(kCode, 256), torch::nn::ReLU(), torch::nn::Linear(256, kPixels)};

  VaeImpl() {
    register_module("encoder", encoder);
    register_module("decoder", decoder);
  }

  torch::Tensor loss(const torch::Tensor& image) {
    const auto parts = encoder->forward(image).chunk(2, 1);
    const auto code = parts[0] + torch::exp(parts[1] * 0.5) * torch::randn_like(parts[0]);
    const auto pixels = decoder->forward(code);
    const auto of_image = torch::binary_cross_entropy_with_logits(pixels, image, {}, {}, at::Reduction::Mean) * kPixels;
    const auto divergence = (torch::square(parts[0]) + torch::exp(parts[1]) - parts[1] - 1).sum(1) * 0.5;
    return of_image + divergence.mean();
  }
};
TORCH_MODULE(Vae);

int main(int, char** argv) {
  const auto clothes = [&](torch::data::datasets::MNIST::Mode mode) {
    return torch::data::datasets::MNIST(argv[1], mode).map(torch::data::transforms::Stack<>());
  };
  auto train = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTrain), 128);
  auto test = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTest), 128);
  torch::manual_seed(0);
  Vae net;
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  for (int step = 0; step < 1000;)
    for (auto& batch : *train) {
      if (step++ == 1000) break;
      optimizer.zero_grad();
      net->loss(batch.data.flatten(1)).backward();
      optimizer.step();
    }
  torch::save(net, "vae.pt");
  torch::NoGradGuard no_grad;
  double loss = 0;
  for (auto& batch : *test) loss += net->loss(batch.data.flatten(1)).item<double>() * static_cast<double>(batch.data.size(0));
  std::printf("loss %.1f\n", loss / 10000);
  const auto images = torch::sigmoid(net->decoder->forward(torch::randn({64, kCode})));
  torch::save(images, "images.pt");
  std::printf("mean of 64 made images %.2f\n", images.mean().item<double>());
}
