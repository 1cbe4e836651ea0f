// A diffusion model of Fashion-MNIST: a U-Net learns to say which noise an image has, and images are made by taking it away bit by bit. Its long
// skips run from stage to stage, activations are recomputed where the plan finds that they must be, and the moving average of the weights draws.
//   diffusion [DEVICES] [STEPS]     diffusion cpu:0,cpu:1,cpu:2,cpu:3 3000
#include <sluice/sluice.h>

#include <cmath>
#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kSide = 28, kTimeWidth = 64;

/// The share of an image's variance that is left at a time in [0, 1] (arXiv:2102.09672).
template <class X>
X kept(const X& time) {
  return square(cos((time + 0.008) * (std::numbers::pi / 2 / 1.008)));
}

/// An image [B, 28, 28, 1] with noise of a random time -> [B, 28, 28, 3]: the noisy image, the noise, the time.
Var diffused(const Call& call) {
  const Tensor image = call.inputs[0].value(), noise = call.normal(image.shape());
  const Tensor time = call.uniform({image.dim(0), 1, 1, 1}), share = kept(time);
  return concat({sqrt(share) * image + sqrt(1 - share) * noise, noise, time.expand(image.shape())}, 3);
}

/// Sines and cosines of a time: [B, 1] -> [B, width].
Var waves(const Var& time) {
  const Tensor frequency = exp(arange(0, kTimeWidth / 2, 1, DType::f32, time.value().device_ptr()) * 0.2);
  return concat({sin(time * frequency), cos(time * frequency)}, 1);
}

/// Two convolutions with a residual connection; inputs are x and the time's features, which are added in between.
class Block : public Composite {
 public:
  Block(int64_t in, int64_t out)
      : first_(add("first", Sequence(GroupNorm(8, in), SiLU(), Conv2d(in, out, {3, 3})))),
        time_(add("time", Linear(kTimeWidth, out))),
        second_(add("second", Sequence(GroupNorm(8, out), SiLU(), Conv2d(out, out, {3, 3})))),
        skip_(add("skip", Conv2d(in, out, {1, 1}))) {}
  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override {
    const Var &x = call.inputs[0], time = run(call, time_, {call.inputs[1]});
    const Var h = run(call, first_, {x}) + reshape(time, {x.dim(0), 1, 1, time.dim(1)});
    return run(call, skip_, {x}) + run(call, second_, {h});
  }

 private:
  int first_, time_, second_, skip_;
};

/// The noise of an image, by a U-Net of three levels.
Value add_unet(Graph& net, Value image, Value time) {
  const auto t = net.add("waves", Sequence(Lambda("sines", waves), Linear(kTimeWidth, kTimeWidth), SiLU()), time);
  std::vector<Value> levels{net.add("in", Conv2d(1, 32, {3, 3}), image)};
  const int64_t widths[] = {32, 32, 64, 64};
  for (int i = 1; i <= 3; ++i) {
    const auto name = std::to_string(i);
    auto x = net.add("down" + name, Block(widths[i - 1], widths[i]), {levels.back(), t});
    if (i < 3) x = net.add("half" + name, AveragePool2d({2, 2, 2, 2}), x);
    levels.push_back(x);
  }
  auto x = levels[3];
  for (int i = 2; i >= 0; --i) {
    const auto name = std::to_string(i);
    x = net.add("up" + name, Block(widths[i + 1] + widths[i], widths[i]), {net.add("join" + name, Concat(), {x, levels[i]}), t});
    if (i > 0) x = net.add("double" + name, Upsample(2), x);
  }
  return net.add("out", Sequence(GroupNorm(8, 32), SiLU(), Conv2d(32, 1, {3, 3})), x);
}

int main(int argc, char** argv) {
  const auto names = argc > 1 ? argv[1] : "cpu:0";
  const auto clothes = std::make_shared<data::ImageDataset>(data::open_idx("/usr/share/datasets/fashion-mnist"),
                                                            data::ImageOptions{.image_size = kSide}, data::Normalisation{{0.5}, {0.5}});
  const auto part = [](const char* name, int first) { return Lambda(name, [=](const Var& x) { return slice(x, 3, first, first + 1); }); };
  Graph net;
  const auto all = net.add("diffused", Lambda("diffused", diffused, {1, 1}), net.input("image", {kSide, kSide, 1}));
  const auto time = net.add("when", Sequence(part("time", 2), Lambda("of a sample", [](const Var& x) { return mean(x, {1, 2}); })), all);
  const auto said = add_unet(net, net.add("noisy", part("noisy", 0), all), time);
  net.loss(net.add("loss", MeanSquaredError(), {said, net.add("noise", part("noise", 1), all)}));

  const int64_t training_steps = argc > 2 ? std::atoll(argv[2]) : 40;
  Adam optimizer({.lr = 2e-3});
  optimizer.rate = {.base = 2e-3, .kind = LearningRate::Kind::cosine, .warmup_steps = 20, .total_steps = training_steps};
  optimizer.ema = 0.995;
  const auto plan = parallel::plan(net, devices(names),
                                   {.batch = 64, .micro_batches = 8, .remat = parallel::kOpen, .memory = 48_MiB, .optimizer = &optimizer});
  parallel::Trainer trainer(net, plan, optimizer);
  training::Loop loop(trainer, clothes, {.steps = training_steps, .batch = 64, .evaluate_samples = 512, .output = "runs/diffusion"});
  loop.run();
  std::printf("loss %.3f\n", loop.history().best()->loss);
  std::printf("weights %s\n", trainer.weights_hash().c_str());

  Graph denoiser;
  denoiser.output(add_unet(denoiser, denoiser.input("image", {kSide, kSide, 1}), denoiser.input("time", {1})));
  training::Predictor predictor(denoiser, parallel::find_checkpoint("runs/diffusion"), devices(names));
  const int64_t images = 32, steps = 100;
  Tensor x = randn({images, kSide, kSide, 1}, 5);
  for (int64_t i = steps; i > 0; --i) {
    const double now = kept(tensor({0.98 * double(i) / steps})).item(), next = kept(tensor({0.98 * double(i - 1) / steps})).item();
    const Tensor noise = predictor.predict({{"image", x}, {"time", full({images, 1}, 0.98 * double(i) / steps)}});
    const Tensor image = clamp((x - noise * std::sqrt(1 - now)) / std::sqrt(now), -1, 1);
    const double fresh = (1 - next) / (1 - now) * (1 - now / next);  // variance of the noise that is drawn anew (arXiv:2006.11239)
    const Tensor old = (x - image * std::sqrt(now)) / std::sqrt(1 - now);
    x = image * std::sqrt(next) + old * std::sqrt(1 - next - fresh) + randn(x.shape(), uint64_t(1000 + i)) * std::sqrt(fresh);
  }
  write_npy("runs/diffusion/images.npy", x.reshape({images, kSide, kSide}));
  std::printf("mean of the images made %.2f\n", mean(x).item());
}
