// examples/lenet.cpp in libtorch.
#include <torch/torch.h>

#include <cstdio>

struct LeNetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear linear1{nullptr}, linear2{nullptr}, logits{nullptr};

  LeNetImpl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).padding(2).bias(false)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5).bias(false)));
    linear1 = register_module("linear1", torch::nn::Linear(400, 120));
    linear2 = register_module("linear2", torch::nn::Linear(120, 84));
    logits = register_module("logits", torch::nn::Linear(84, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2).flatten(1);
    return logits(torch::relu(linear2(torch::relu(linear1(x)))));
  }
};
TORCH_MODULE(LeNet);

int main(int, char** argv) {
  const auto clothes = [&](torch::data::datasets::MNIST::Mode mode) {
    return torch::data::datasets::MNIST(argv[1], mode)
        .map(torch::data::transforms::Normalize<>(0.286, 0.353))
        .map(torch::data::transforms::Stack<>());
  };
  auto train = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTrain), 128);
  auto test = torch::data::make_data_loader(clothes(torch::data::datasets::MNIST::Mode::kTest), 128);
  torch::manual_seed(0);
  LeNet net;
  torch::optim::Adam optimizer(net->parameters(), 2e-3);
  for (int step = 0; step < 600;)
    for (auto& batch : *train) {
      if (step++ == 600) break;
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
