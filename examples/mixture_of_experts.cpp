// A language model whose feed-forward layers are eight experts, two of which each letter runs through.
//   mixture_of_experts [DEVICES] [TEXT]     mixture_of_experts cpu:0,cpu:1 book.txt
#include <sluice/sluice.h>

#include <cstdio>
#include <fstream>
#include <iterator>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kContext = 64, kLetters = 256, kWidth = 96;

int main(int argc, char** argv) {
  const std::string path = argc > 2 ? argv[2] : "/usr/share/common-licenses/GPL-3";
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read; give the path of a text\n", path.c_str());
    return 3;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto tokens = data::Tokens::of(data::ByteTokenizer().encode(text), kLetters);
  const auto windows = std::make_shared<data::TextDataset>(tokens, kContext, 0.1, 1);

  Graph net;
  const auto token = net.input("tokens", {kContext}, DType::i32), next = net.input("targets", {kContext}, DType::i32);
  auto x = net.add("embedding", TokenEmbedding({.vocabulary = kLetters, .width = kWidth, .context = kContext, .standard_deviation = 0.5}),
                   token);
  auto loss = LossSum().with("next", CrossEntropy(), 1, {0, 1});
  std::vector<Value> judged{x, next};
  for (const std::string name : {"layer1", "layer2"}) {
    x = net.add(name + ".attention", PreNormResidual(LayerNorm(kWidth), MultiHeadAttention({.width = kWidth, .heads = 4}), 0), x);
    const auto mixture = add_mixture_of_experts(net, name, {.width = kWidth, .inner = 2 * kWidth, .experts = 8},
                                                net.add(name + ".norm", LayerNorm(kWidth), x));
    x = net.add(name + ".sum", Add(), {x, mixture.output});
    net.output(mixture.probabilities);
    loss = std::move(loss).with(name, BalanceLoss(), 0.01, {int(judged.size())});
    judged.push_back(mixture.probabilities);
  }
  judged[0] = net.add("logits", Sequence(LayerNorm(kWidth), Linear(kWidth, kLetters)), x);
  net.loss(net.add("loss", std::move(loss), judged));

  const auto plan = parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = 32, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 3e-3}), {.clip = 1});
  training::Loop loop(trainer, windows, {.steps = 300, .batch = 32, .evaluate_every = 100});
  loop.on_evaluation = [](int64_t step, const training::Evaluation& e) { std::printf("step %3d: loss %.3f\n", int(step), *e.loss); };
  loop.run();
  std::printf("weights %s\n", trainer.weights_hash().c_str());

  const Batch batch = batch_of({{"tokens", windows->load("tokens", data::Split::validation, 0, std::vector<int64_t>{0, 1, 2, 3})},
                                {"targets", windows->load("targets", data::Split::validation, 0, std::vector<int64_t>{0, 1, 2, 3})}});
  for (const auto& [name, probabilities] : trainer.evaluate(batch, true).outputs) {
    std::printf("%s: share of the letters that each expert is the likeliest for:", name.c_str());
    const Tensor likeliest = argmax(probabilities);
    for (int expert = 0; expert < 8; ++expert) std::printf(" %.2f", mean(cast(equal(likeliest, expert), DType::f32)).item());
    std::printf("\n");
  }
}
