// A vision transformer learns the clothes of Fashion-MNIST from 49 patches an image.
//   vit [DEVICES]     vit cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

int main(int argc, char** argv) {
  const auto clothes = std::make_shared<data::ImageDataset>(data::open_idx("/usr/share/datasets/fashion-mnist"),
                                                            data::ImageOptions{.image_size = 28}, data::Normalisation{{0.286}, {0.353}});
  const int64_t width = 64, patches = 49;
  Graph net;
  const auto image = net.input("image", {28, 28, 1}), label = net.input("label", {}, DType::i32);
  auto x = net.add("patches",
                   Sequence(Conv2d(1, width, {4, 4, 4, 4}), Reshape({patches, width}), Positions(Positions::Kind::learned, patches, width)),
                   image);
  for (int i = 0; i < 4; ++i)
    x = net.add("layer" + std::to_string(i), TransformerEncoderLayer({.width = width, .heads = 4, .inner = 128, .dropout = 0.1}), x);
  x = net.add("logits",
              Sequence(LayerNorm(width), Lambda("mean over patches", [](const Var& y) { return mean(y, {1}); }), Linear(width, 10)), x);
  net.output(x);
  net.loss(net.add("loss", CrossEntropy(), {x, label}));

  const auto plan = parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = 128, .micro_batches = 4});
  AdamW optimizer({.lr = 1e-3, .weight_decay = 0.05});
  optimizer.rate.function = [](int64_t step) { return 2e-3 * std::min(1.0, (step + 1) / 50.0) * (1 - step / 400.0); };
  parallel::Trainer trainer(net, plan, optimizer);
  training::Loop loop(trainer, clothes, {.steps = 300, .batch = 128, .metrics = {{"accuracy", training::accuracy()}}});
  loop.run();
  std::printf("accuracy %.3f\n", loop.history().best()->metrics.at("accuracy"));
  std::printf("weights %s\n", trainer.weights_hash().c_str());
}
