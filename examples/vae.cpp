// A variational autoencoder of Fashion-MNIST: 16 numbers an image. The network encodes, draws and decodes; another graph of the same decoder
// makes images from numbers alone.
//   vae [DEVICES]     vae cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kPixels = 28 * 28, kCode = 16;

/// A code drawn around what the encoder says: input [B, 2 code], means and logarithms of variances.
Var drawn(const Call& call) {
  const auto parts = split(call.inputs[0], kCode, 1);
  return parts[0] + exp(parts[1] * 0.5) * Var(call.normal(parts[0].shape()));
}

/// How far the codes of an image are from normal numbers.
class Divergence : public Loss {
 public:
  Divergence() : Loss(1) {}

 private:
  Var losses(const Call& call) const override {
    const auto parts = split(call.inputs[0], kCode, 1);
    return sum(square(parts[0]) + exp(parts[1]) - parts[1] - 1, {1}) * 0.5;
  }
};

Value add_decoder(Graph& net, Value code) {
  const auto hidden = net.add("decoder", Sequence(Linear(kCode, 256), ReLU()), code);
  return net.add("pixels", Linear(256, kPixels), hidden);
}

int main(int argc, char** argv) {
  const auto names = argc > 1 ? argv[1] : "cpu:0";
  const auto clothes = std::make_shared<data::ImageDataset>(data::open_idx("/usr/share/datasets/fashion-mnist"),
                                                            data::ImageOptions{.image_size = 28}, data::Normalisation{{0}, {1}});
  Graph net;
  const auto image = net.add("image_row", Flatten(), net.input("image", {28, 28, 1}));
  const auto hidden = net.add("encoder", Sequence(Linear(kPixels, 256), ReLU()), image);
  const auto said = net.add("said", Linear(256, 2 * kCode), hidden);
  const auto pixels = add_decoder(net, net.add("code", Lambda("drawn", drawn, {1, 1}), said));
  net.loss(net.add("loss", LossSum().with("image", BinaryCrossEntropy(), kPixels, {0, 1}).with("code", Divergence(), 1, {2}),
                   {pixels, image, said}));

  const auto plan = parallel::plan(net, devices(names), {.batch = 128, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 1e-3}));
  training::Loop loop(trainer, clothes, {.steps = 1000, .batch = 128, .output = "runs/vae"});
  loop.run();
  std::printf("loss %.1f\n", loop.history().best()->loss);
  std::printf("weights %s\n", trainer.weights_hash().c_str());

  Graph generator;
  generator.output(add_decoder(generator, generator.input("code", {kCode})));
  training::Predictor predictor(generator, parallel::find_checkpoint("runs/vae"), devices(names));
  const Tensor images = sigmoid(predictor.predict({{"code", randn({64, kCode}, 7)}}));
  write_npy("runs/vae/images.npy", images.reshape({64, 28, 28}));
  std::printf("mean of 64 made images %.2f\n", mean(images).item());
}
