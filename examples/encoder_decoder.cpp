// An encoder-decoder transformer learns to sort digits: the encoder reads them, the decoder says them in order, one after the other.
//   encoder_decoder [DEVICES]     encoder_decoder cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kDigits = 8, kBegin = 10, kWords = 11, kWidth = 64;

/// Digits, what the decoder has said before each of its own, and those in order.
data::TensorDataset::Inputs drawn(int64_t samples, uint64_t key) {
  const Tensor digits = cast(floor(rand({samples, kDigits}, key) * 10.0), DType::i32), ordered = sort(digits, 1).values;
  return {{"digits", digits},
          {"said", concat({full({samples, 1}, kBegin, DType::i32), ordered.slice(1, 0, kDigits - 1)}, 1)},
          {"ordered", ordered}};
}

int main(int argc, char** argv) {
  const auto names = argc > 1 ? argv[1] : "cpu:0";
  const auto dataset = std::make_shared<data::TensorDataset>(drawn(20000, 1), drawn(500, 2));
  const TransformerLayerOptions layer{.width = kWidth, .heads = 4, .inner = 128};

  Graph net;
  const auto digits = net.input("digits", {kDigits}, DType::i32), said = net.input("said", {kDigits}, DType::i32);
  const auto ordered = net.input("ordered", {kDigits}, DType::i32);
  const TokenEmbedding embedding({.vocabulary = kWords, .width = kWidth, .context = kDigits});
  auto memory = net.add("source", embedding, digits);
  for (const auto name : {"encoder1", "encoder2"}) memory = net.add(name, TransformerEncoderLayer(layer), memory);
  auto x = net.add("target", embedding, said);
  for (const auto name : {"decoder1", "decoder2"}) x = net.add(name, TransformerDecoderLayer(layer), {x, memory});
  x = net.add("logits", Sequence(LayerNorm(kWidth), Linear(kWidth, kWords)), x);
  net.output(x);
  net.loss(net.add("loss", CrossEntropy(), {x, ordered}));

  const auto plan = parallel::plan(net, devices(names), {.batch = 128, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 2e-3}));
  training::Loop loop(trainer, dataset, {.steps = 400, .batch = 128, .output = "runs/encoder_decoder"});
  loop.run();
  std::printf("loss %.3f\n", loop.history().best()->loss);

  training::Predictor predictor(net, parallel::find_checkpoint("runs/encoder_decoder"), devices(names));
  const auto test = drawn(500, 3);
  Tensor spoken = full({500, kDigits + 1}, kBegin, DType::i32);
  for (int64_t i = 0; i < kDigits; ++i) {
    const Tensor logits = predictor.predict({{"digits", test.at("digits")}, {"said", spoken.slice(1, 0, kDigits).contiguous()}});
    copy(cast(argmax(logits), DType::i32).slice(1, i, i + 1), spoken.slice(1, i + 1, i + 2));
  }
  const Tensor right = sum(cast(equal(spoken.slice(1, 1), test.at("ordered")), DType::f32), {1});
  std::printf("sorted as a whole %.3f\n", mean(cast(equal(right, kDigits), DType::f32)).item());
  std::printf("weights %s\n", trainer.weights_hash().c_str());
}
