// examples/fine_tuning.cpp in libtorch.
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

torch::nn::Conv2d convolution(int64_t in, int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
}

struct NetImpl : torch::nn::Module {
  torch::nn::Sequential trunk{convolution(1, 16), torch::nn::ReLU(),       torch::nn::MaxPool2d(2), convolution(16, 32),
                              torch::nn::ReLU(),  torch::nn::MaxPool2d(2), torch::nn::Flatten()};
  torch::nn::Sequential features{torch::nn::Linear(32 * 49, 64), torch::nn::ReLU()};
  torch::nn::Linear head;

  explicit NetImpl(int64_t classes) : head(64, classes) {
    register_module("trunk", trunk);
    register_module("features", features);
    register_module("head", head);
  }

  torch::Tensor forward(const torch::Tensor& image) { return head(features->forward(trunk->forward(image))); }
};
TORCH_MODULE(Net);

struct Samples {
  torch::Tensor image, label;
};

Samples clothes(const std::string& folder, torch::data::datasets::MNIST::Mode mode) {
  const torch::data::datasets::MNIST files(folder, mode);
  return {(files.images() - 0.286) / 0.353, files.targets()};
}

/// The first images, with what they are for.
Samples uses(const Samples& all, int64_t count) {
  const auto use_of_class = torch::tensor({0, 1, 0, 1, 0, 2, 0, 2, 3, 2});
  return {all.image.slice(0, 0, count), use_of_class.index_select(0, all.label.slice(0, 0, count))};
}

double accuracy_after(Net& net, torch::optim::Optimizer& optimizer, const Samples& train, const Samples& test, int64_t steps,
                      int64_t batch) {
  for (int64_t step = 0; step < steps; ++step) {
    const auto rows = torch::randint(train.image.size(0), {batch});
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net(train.image.index_select(0, rows)), train.label.index_select(0, rows)).backward();
    optimizer.step();
  }
  torch::NoGradGuard no_grad;
  double right = 0;
  for (int64_t i = 0; i < test.image.size(0); i += 500)
    right += net(test.image.slice(0, i, i + 500)).argmax(1).eq(test.label.slice(0, i, i + 500)).sum().item<double>();
  return right / static_cast<double>(test.image.size(0));
}

int main(int, char** argv) {
  const auto train = clothes(argv[1], torch::data::datasets::MNIST::Mode::kTrain);
  const auto test = clothes(argv[1], torch::data::datasets::MNIST::Mode::kTest);
  const auto few = uses(train, 40), some = uses(test, 2000);
  torch::manual_seed(0);

  Net first(10);
  torch::optim::Adam of_first(first->parameters(), 1e-3);
  std::printf("classes, from 60000 images: accuracy %.3f\n", accuracy_after(first, of_first, train, test, 800, 128));
  torch::save(first->trunk, "trunk.pt");
  torch::save(first->features, "features.pt");

  Net tuned(4);
  torch::load(tuned->trunk, "trunk.pt");
  torch::load(tuned->features, "features.pt");
  for (auto& weight : tuned->trunk->parameters()) weight.requires_grad_(false);
  const std::vector<torch::optim::OptimizerParamGroup> groups{
      torch::optim::OptimizerParamGroup(tuned->features->parameters()),
      torch::optim::OptimizerParamGroup(tuned->head->parameters(), std::make_unique<torch::optim::AdamOptions>(1e-2))};
  torch::optim::Adam of_tuned(groups, torch::optim::AdamOptions(3e-5));
  std::printf("uses, from 40 images: accuracy %.3f\n", accuracy_after(tuned, of_tuned, few, some, 200, 20));

  Net fresh(4);
  torch::optim::Adam of_fresh(fresh->parameters(), 1e-3);
  std::printf("uses, without what it knew: accuracy %.3f\n", accuracy_after(fresh, of_fresh, few, some, 200, 20));
}
