// examples/mixture_of_experts.cpp in libtorch.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

constexpr int64_t kContext = 64, kLetters = 256, kWidth = 96, kInner = 2 * kWidth, kExperts = 8, kChosen = 2;
constexpr int64_t kCapacity = 20;  // 1.25 kChosen kContext / kExperts

struct MixtureImpl : torch::nn::Module {
  torch::nn::Linear router{nullptr};
  torch::Tensor into, out;

  MixtureImpl() {
    router = register_module("router", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kExperts).bias(false)));
    into = register_parameter("into", torch::randn({kExperts, kWidth, kInner}) / std::sqrt(kWidth));
    out = register_parameter("out", torch::randn({kExperts, kInner, kWidth}) / std::sqrt(kInner));
  }

  /// The mixture of x [B, T, width], and how likely each expert is for each token.
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
    const auto probabilities = torch::softmax(router(x), -1);
    const auto [likeliest, experts] = probabilities.topk(kChosen);
    const auto weights = (likeliest / likeliest.sum(-1, true)).transpose(1, 2).flatten(1);
    const auto choices = torch::one_hot(experts.transpose(1, 2).flatten(1), kExperts);  // first choices of all tokens first
    const auto kept = choices * (choices.cumsum(1) <= kCapacity);
    const auto rows = x.flatten(0, 1);
    auto y = torch::zeros_like(rows);
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      const auto taken = kept.select(2, expert).nonzero(), sample = taken.select(1, 0), choice = taken.select(1, 1);
      const auto token = sample * kContext + choice % kContext;
      const auto made = torch::gelu(rows.index_select(0, token).matmul(into[expert]), "tanh").matmul(out[expert]);
      y = y.index_add(0, token, made * weights.index({sample, choice}).unsqueeze(1));
    }
    return {y.view_as(x), probabilities};
  }
};
TORCH_MODULE(Mixture);

struct LayerImpl : torch::nn::Module {
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  Mixture mixture{nullptr};

  LayerImpl() {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    attention = register_module("attention", torch::nn::MultiheadAttention(kWidth, 4));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    mixture = register_module("mixture", Mixture());
  }

  std::pair<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    const auto mask = torch::nn::TransformerImpl::generate_square_subsequent_mask(kContext);
    const auto h = norm1(x).transpose(0, 1);
    x = x + std::get<0>(attention(h, h, h, torch::Tensor(), false, mask)).transpose(0, 1);
    const auto [y, probabilities] = mixture(norm2(x));
    return {x + y, probabilities};
  }
};
TORCH_MODULE(Layer);

struct ModelImpl : torch::nn::Module {
  torch::nn::Embedding embedding{nullptr};
  torch::Tensor positions;
  std::vector<Layer> layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear logits{nullptr};

  ModelImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kLetters, kWidth));
    torch::nn::init::normal_(embedding->weight, 0, 0.5);
    positions = register_parameter("positions", torch::randn({kContext, kWidth}) * 0.02);
    for (const auto name : {"layer1", "layer2"}) layers.push_back(register_module(name, Layer()));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    logits = register_module("logits", torch::nn::Linear(kWidth, kLetters));
  }

  /// Logits, and the probabilities of every layer's experts.
  std::pair<torch::Tensor, std::vector<torch::Tensor>> forward(const torch::Tensor& tokens) {
    auto x = embedding(tokens) + positions;
    std::vector<torch::Tensor> probabilities;
    for (auto& layer : layers) std::tie(x, probabilities.emplace_back()) = layer(x);
    return {logits(norm(x)), probabilities};
  }

  torch::Tensor loss(const torch::Tensor& rows) {
    const auto [said, probabilities] = forward(rows.slice(1, 0, kContext));
    auto loss = torch::nn::functional::cross_entropy(said.flatten(0, 1), rows.slice(1, 1).flatten());
    for (const auto& of_layer : probabilities) {
      const auto used = torch::one_hot(std::get<1>(of_layer.topk(kChosen)), kExperts).to(torch::kFloat).mean({1, 2});
      loss = loss + 0.01 * kExperts * (used * of_layer.mean(1)).sum(1).mean();
    }
    return loss;
  }
};
TORCH_MODULE(Model);

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto all = torch::from_blob(const_cast<char*>(text.data()), {int64_t(text.size())}, torch::kUInt8).to(torch::kLong);
  const auto parts = all.slice(0, 0, all.size(0) / 3 * 3).view({3, -1});  // the last tenth of each is kept apart
  const int64_t seen = parts.size(1) / 10 * 9;
  const auto train = parts.slice(1, 0, seen).unfold(1, kContext + 1, 1).flatten(0, 1);
  const auto test = parts.slice(1, seen).unfold(1, kContext + 1, kContext).flatten(0, 1);

  torch::manual_seed(0);
  Model net;
  torch::optim::Adam optimizer(net->parameters(), 3e-3);
  for (int step = 1; step <= 300; ++step) {
    const auto rows = train.index_select(0, torch::randint(train.size(0), {32}));
    optimizer.zero_grad();
    net->loss(rows).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1);
    optimizer.step();
    if (step % 100 == 0) {
      torch::NoGradGuard no_grad;
      std::printf("step %3d: loss %.3f\n", step, net->loss(test).item<double>());
    }
  }

  torch::NoGradGuard no_grad;
  const auto probabilities = net(test.slice(0, 0, 4).slice(1, 0, kContext)).second;
  for (size_t layer = 0; layer < probabilities.size(); ++layer) {
    std::printf("layer%zu: share of the letters that each expert is the likeliest for:", layer + 1);
    const auto likeliest = probabilities[layer].argmax(-1);
    for (int64_t expert = 0; expert < kExperts; ++expert)
      std::printf(" %.2f", likeliest.eq(expert).to(torch::kFloat).mean().item<double>());
    std::printf("\n");
  }
}
