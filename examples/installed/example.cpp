// A model of one's own, trained as a pipeline over two devices: it learns the classes of 256 made-up images by heart.
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;

Batch made_up_images(int64_t samples) {
  Tensor image = empty({samples, 784}), label = empty({samples}, DType::i32);
  fill_normal(image, 0, 1, random_key(1, "image"));
  for (int64_t i = 0; i < samples; ++i) label.data<int32_t>()[i] = static_cast<int32_t>(i * i % 10);
  return batch_of({{"image", image}, {"label", label}});
}

int main() {
  layers::Graph net;
  auto x = net.input("image", {784}), target = net.input("label", {}, DType::i32);
  auto h = net.add("hidden", layers::Linear(784, 512), x);
  h = net.add("relu", layers::ReLU(), h);
  auto y = net.add("logits", layers::Linear(512, 10), h);
  net.loss(net.add("loss", layers::CrossEntropy(), {y, target}));

  auto plan = parallel::plan(net, devices("cpu:0,cpu:1"), {.batch = 256, .micro_batches = 4, .memory = 1_GiB});
  parallel::Trainer trainer(net, plan, AdamW({.lr = 1e-3}));
  const Batch batch = made_up_images(256);
  for (int step = 1; step <= 20; ++step) std::printf("step %2d  loss %.4f\n", step, trainer.step(batch).loss);
}
