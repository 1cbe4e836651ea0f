// LeNet-5 learns the clothes of Fashion-MNIST.
//   lenet [DEVICES]     lenet cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

int main(int argc, char** argv) {
  const auto clothes = std::make_shared<data::ImageDataset>(data::open_idx("/usr/share/datasets/fashion-mnist"),
                                                            data::ImageOptions{.image_size = 28}, data::Normalisation{{0.286}, {0.353}});
  Graph net;
  const auto image = net.input("image", {28, 28, 1}), label = net.input("label", {}, DType::i32);
  auto x = net.add("conv1", Sequence(Conv2d(1, 6, {5, 5}), ReLU(), MaxPool2d({2, 2, 2, 2})), image);
  x = net.add("conv2", Sequence(Conv2d(6, 16, {5, 5, 1, 1, Padding::valid}), ReLU(), MaxPool2d({2, 2, 2, 2}), Flatten()), x);
  x = net.add("linear1", Sequence(Linear(400, 120), ReLU()), x);
  x = net.add("linear2", Sequence(Linear(120, 84), ReLU()), x);
  x = net.add("logits", Linear(84, 10), x);
  net.output(x);
  net.loss(net.add("loss", CrossEntropy(), {x, label}));

  const auto plan = parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = 128, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 2e-3}));
  training::Loop loop(trainer, clothes, {.steps = 600, .batch = 128, .metrics = {{"accuracy", training::accuracy()}}});
  loop.run();
  std::printf("accuracy %.3f\n", loop.history().best()->metrics.at("accuracy"));
  std::printf("weights %s\n", trainer.weights_hash().c_str());
}
