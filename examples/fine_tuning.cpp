// A network that knows the ten classes of Fashion-MNIST learns another task from forty images: is it for the upper body, the legs, the feet, or a bag? Its
// first layers are frozen, and the others have rates of their own.
//   fine_tuning [DEVICES]     fine_tuning cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

Graph network(int64_t classes) {
  Graph net;
  const auto image = net.input("image", {28, 28, 1}), label = net.input("label", {}, DType::i32);
  auto x = net.add("trunk1", Sequence(Conv2d(1, 16, {3, 3}), ReLU(), MaxPool2d({2, 2, 2, 2})), image);
  x = net.add("trunk2", Sequence(Conv2d(16, 32, {3, 3}), ReLU(), MaxPool2d({2, 2, 2, 2}), Flatten()), x);
  x = net.add("features", Sequence(Linear(32 * 49, 64), ReLU()), x);
  x = net.add("head" + std::to_string(classes), Linear(64, classes), x);
  net.output(x);
  net.loss(net.add("loss", CrossEntropy(), {x, label}));
  return net;
}

/// Some images of a split, with what they are for.
data::TensorDataset::Inputs uses(const data::Dataset& clothes, data::Split split, int64_t first, int64_t count) {
  const Tensor use_of_class = tensor({0, 1, 0, 1, 0, 2, 0, 2, 3, 2});
  const auto numbers = arange(first, first + count, 1, DType::i64).to_vector<int64_t>();
  return {{"image", clothes.load("image", split, 0, numbers)},
          {"label", index_select(use_of_class, 0, clothes.load("label", split, 0, numbers))}};
}

double accuracy_after(parallel::Trainer& trainer, const data::DatasetPtr& dataset, int64_t steps, int64_t batch, std::string output) {
  training::Loop loop(trainer, dataset,
                      {.steps = steps, .batch = batch, .metrics = {{"accuracy", training::accuracy()}}, .output = std::move(output)});
  loop.run();
  return loop.history().best()->metrics.at("accuracy");
}

int main(int argc, char** argv) {
  const auto clothes = std::make_shared<data::ImageDataset>(data::open_idx("/usr/share/datasets/fashion-mnist"),
                                                            data::ImageOptions{.image_size = 28}, data::Normalisation{{0.286}, {0.353}});
  const auto few =
      std::make_shared<data::TensorDataset>(uses(*clothes, data::Split::train, 0, 40), uses(*clothes, data::Split::validation, 0, 2000));
  const auto plan_of = [&](const Graph& net, int64_t batch) {
    return parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = batch, .micro_batches = 2});
  };

  const Graph net = network(10);
  parallel::Trainer first(net, plan_of(net, 128), Adam({.lr = 1e-3}));
  std::printf("classes, from 60000 images: accuracy %.3f\n", accuracy_after(first, clothes, 800, 128, "runs/fine_tuning"));

  Graph tuned = network(4);
  tuned.freeze("trunk*");
  Adam optimizer({.lr = 3e-5});
  optimizer.groups({{"head4.*", {.lr = 1e-2}}});
  parallel::Trainer second(tuned, plan_of(tuned, 20), optimizer);
  std::printf("%s\n", parallel::describe(parallel::initialize(parallel::find_checkpoint("runs/fine_tuning"), second)).c_str());
  std::printf("uses, from 40 images: accuracy %.3f\n", accuracy_after(second, few, 200, 20, ""));

  const Graph fresh = network(4);
  parallel::Trainer third(fresh, plan_of(fresh, 20), Adam({.lr = 1e-3}));
  std::printf("uses, without what it knew: accuracy %.3f\n", accuracy_after(third, few, 200, 20, ""));
  std::printf("weights %s\n", second.weights_hash().c_str());
}
