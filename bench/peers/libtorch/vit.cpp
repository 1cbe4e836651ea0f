// examples/vit.cpp in libtorch.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

constexpr int64_t kWidth = 64, kPatches = 49;

struct VitImpl : torch::nn::Module {
  torch::nn::Conv2d patches{nullptr};
  torch::Tensor positions;
  torch::nn::TransformerEncoder layers{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear logits{nullptr};

  VitImpl() {
    patches = register_module("patches", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kWidth, 4).stride(4).bias(false)));
    positions = register_parameter("positions", torch::randn({kPatches, 1, kWidth}) * 0.02);
    const auto layer = torch::nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(128).dropout(0.1);
    layers = register_module("layers", torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(layer, 4)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    logits = register_module("logits", torch::nn::Linear(kWidth, 10));
  }

  torch::Tensor forward(const torch::Tensor& image) {
    const auto x = patches(image).flatten(2).permute({2, 0, 1}) + positions;
    return logits(norm(layers(x)).mean(0));
  }
};
TORCH_MODULE(Vit);

int main(int, char** argv) {
  const auto clothes = [&](torch::data::datasets::MNIST::Mode mode) {
    return torch::data::datasets::MNIST(argv[1], mode)
        .map(torch::data::transforms::Normalize<>(0.286, 0.353))
        .map(torch::data::transforms::Stack<>());
  };
  auto train = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTrain), 128);
  auto test = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTest), 128);
  torch::manual_seed(0);
  Vit net;
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.05));
  for (int step = 0; step < 300;)
    for (auto& batch : *train) {
      const double rate = 2e-3 * std::min(1.0, (step + 1) / 50.0) * (1 - step / 400.0);
      if (step++ == 300) break;
      for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(net(batch.data), batch.target).backward();
      optimizer.step();
    }
  torch::NoGradGuard no_grad;
  net->eval();
  double right = 0;
  for (auto& batch : *test) right += net(batch.data).argmax(1).eq(batch.target).sum().item<double>();
  std::printf("accuracy %.3f\n", right / 10000);
}
