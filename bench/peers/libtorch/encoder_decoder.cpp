// examples/encoder_decoder.cpp in libtorch.
#include <torch/torch.h>

#include <cstdio>

constexpr int64_t kDigits = 8, kBegin = 10, kWords = 11, kWidth = 64;

struct Rows {
  torch::Tensor digits, said, ordered;
};
Rows drawn(int64_t samples) {
  const auto digits = torch::randint(10, {samples, kDigits}), ordered = std::get<0>(digits.sort(1));
  return {digits, torch::cat({torch::full({samples, 1}, kBegin), ordered.slice(1, 0, kDigits - 1)}, 1), ordered};
}

struct SorterImpl : torch::nn::Module {
  torch::nn::Embedding source{nullptr}, target{nullptr};
  torch::Tensor source_positions, target_positions;
  torch::nn::Transformer transformer{nullptr};
  torch::nn::Linear logits{nullptr};

  SorterImpl() {
    source = register_module("source", torch::nn::Embedding(kWords, kWidth));
    target = register_module("target", torch::nn::Embedding(kWords, kWidth));
    source_positions = register_parameter("source_positions", torch::randn({kDigits, 1, kWidth}) * 0.02);
    target_positions = register_parameter("target_positions", torch::randn({kDigits, 1, kWidth}) * 0.02);
    auto options = torch::nn::TransformerOptions(kWidth, 4, 2, 2).dim_feedforward(128).dropout(0);
    transformer = register_module("transformer", torch::nn::Transformer(options));
    logits = register_module("logits", torch::nn::Linear(kWidth, kWords));
  }

  torch::Tensor forward(const torch::Tensor& digits, const torch::Tensor& said) {
    const auto mask = torch::nn::TransformerImpl::generate_square_subsequent_mask(kDigits);
    const auto from = source(digits.t()) + source_positions, to = target(said.t()) + target_positions;
    return logits(transformer(from, to, torch::Tensor(), mask)).transpose(0, 1);
  }
};
TORCH_MODULE(Sorter);

int main() {
  torch::manual_seed(0);
  const Rows train = drawn(20000), test = drawn(500);
  Sorter net;
  torch::optim::Adam optimizer(net->parameters(), 2e-3);
  for (int step = 0; step < 400; ++step) {
    const auto rows = torch::randint(20000, {128});
    const auto logits = net(train.digits.index_select(0, rows), train.said.index_select(0, rows));
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(logits.flatten(0, 1), train.ordered.index_select(0, rows).flatten()).backward();
    optimizer.step();
  }
  torch::save(net, "encoder_decoder.pt");

  torch::NoGradGuard no_grad;
  net->eval();
  auto spoken = torch::full({500, kDigits + 1}, kBegin);
  for (int64_t i = 0; i < kDigits; ++i) spoken.select(1, i + 1).copy_(net(test.digits, spoken.slice(1, 0, kDigits)).select(1, i).argmax(1));
  const auto right = spoken.slice(1, 1).eq(test.ordered).all(1);
  std::printf("sorted as a whole %.3f\n", right.to(torch::kFloat).mean().item<double>());
}
