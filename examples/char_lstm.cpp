// An LSTM learns a text letter by letter, then goes on with a beginning.
//   char_lstm [DEVICES] [TEXT]     char_lstm cpu:0,cpu:1 book.txt
#include <sluice/sluice.h>

#include <cstdio>
#include <fstream>
#include <iterator>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kContext = 64, kLetters = 256, kWidth = 128;

int main(int argc, char** argv) {
  const auto names = argc > 1 ? argv[1] : "cpu:0";
  const std::string path = argc > 2 ? argv[2] : "/usr/share/common-licenses/GPL-3";
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read; give the path of a text\n", path.c_str());
    return 3;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const data::ByteTokenizer letters;
  const auto tokens = data::Tokens::of(letters.encode(text), kLetters);
  const auto windows = std::make_shared<data::TextDataset>(tokens, kContext, 0.1, 1);

  Graph net;
  const auto token = net.input("tokens", {kContext}, DType::i32), next = net.input("targets", {kContext}, DType::i32);
  auto x = net.add("embedding", Embedding(kLetters, kWidth, 1), token);
  x = net.add("lstm1", LSTM(kWidth, kWidth), x);
  x = net.add("lstm2", LSTM(kWidth, kWidth), x);
  x = net.add("logits", Linear(kWidth, kLetters), x);
  net.output(x);
  net.loss(net.add("loss", CrossEntropy(), {x, next}));

  const auto plan = parallel::plan(net, devices(names), {.batch = 32, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 4e-3}), {.clip = 1});
  training::Loop loop(trainer, windows, {.steps = 400, .batch = 32, .evaluate_every = 100, .output = "runs/char_lstm"});
  loop.on_evaluation = [](int64_t step, const training::Evaluation& e) { std::printf("step %3d: loss %.3f\n", int(step), *e.loss); };
  loop.run();
  std::printf("weights %s\n", trainer.weights_hash().c_str());

  training::Predictor predictor(net, parallel::find_checkpoint("runs/char_lstm"), devices(names));
  std::string said = "You may convey a work based on the Program, or the modifications";
  for (int i = 0; i < 120; ++i) {
    const auto window = letters.encode(said.substr(said.size() - kContext));
    const Tensor logits = predictor.predict({{"tokens", tensor(window).reshape({1, kContext})}});
    const Tensor surprise =
        -log(-log(rand({kLetters}, uint64_t(i))));  // an argmax with it draws by the probabilities; the factor makes it careful
    said += letters.decode(std::vector{int32_t(argmax(logits.select(1, kContext - 1) * 2.0 + surprise).item())});
  }
  std::printf("%s\n", said.c_str());
}
