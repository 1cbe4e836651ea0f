// examples/char_lstm.cpp in libtorch.
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>

constexpr int64_t kContext = 64, kLetters = 256, kWidth = 128;

struct CharLstmImpl : torch::nn::Module {
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear logits{nullptr};

  CharLstmImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kLetters, kWidth));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)));
    logits = register_module("logits", torch::nn::Linear(kWidth, kLetters));
  }

  torch::Tensor forward(const torch::Tensor& tokens) { return logits(std::get<0>(lstm(embedding(tokens)))); }
};
TORCH_MODULE(CharLstm);

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto all = torch::from_blob(const_cast<char*>(text.data()), {int64_t(text.size())}, torch::kUInt8).to(torch::kLong);
  const auto windows = all.slice(0, 0, (all.size(0) - 1) / kContext * kContext + 1).unfold(0, kContext + 1, kContext);
  const int64_t kept = windows.size(0) / 10;
  const auto train = windows.slice(0, 0, windows.size(0) - kept), test = windows.slice(0, windows.size(0) - kept);

  torch::manual_seed(0);
  CharLstm net;
  torch::optim::Adam optimizer(net->parameters(), 4e-3);
  const auto loss_of = [&](const torch::Tensor& rows) {
    const auto logits = net(rows.slice(1, 0, kContext));
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), rows.slice(1, 1).flatten());
  };
  for (int step = 1; step <= 400; ++step) {
    const auto rows = train.index_select(0, torch::randint(train.size(0), {32}));
    optimizer.zero_grad();
    loss_of(rows).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1);
    optimizer.step();
    if (step % 100 == 0) {
      torch::NoGradGuard no_grad;
      std::printf("step %3d: loss %.3f\n", step, loss_of(test).item<double>());
    }
  }
  torch::save(net, "char_lstm.pt");

  torch::NoGradGuard no_grad;
  std::string said = "You may convey a work based on the Program, or the modifications";
  for (int i = 0; i < 120; ++i) {
    const std::string last = said.substr(said.size() - kContext);
    const auto window = torch::from_blob(const_cast<char*>(last.data()), {1, kContext}, torch::kUInt8).to(torch::kLong);
    const auto chances = torch::softmax(net(window)[0][kContext - 1] * 2.0, 0);
    said += char(torch::multinomial(chances, 1).item<int64_t>());
  }
  std::printf("%s\n", said.c_str());
}
