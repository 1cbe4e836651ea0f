// A generative adversarial network learns eight clusters on a ring, in one graph: the discriminator sees real points, made points for its own
// loss (of which the generator gets no gradient), and made points for the generator's (of which its own weights get none). It sees them blurred,
// or the generator would be content with a few of the clusters.
//   gan [DEVICES]     gan cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cmath>
#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

constexpr int64_t kNoise = 16, kWidth = 128;

Tensor ring(int64_t samples, uint64_t key) {
  const Tensor angle = floor(rand({samples}, key) * 8.0) * (std::numbers::pi / 4);
  return stack({cos(angle), sin(angle)}, 1) * 2.0 + randn({samples, 2}, key + 1) * 0.05;
}

/// Logits [B, 3] of {real, made}: real points; made ones, as constants; made ones by constant weights.
class Discriminator : public Composite {
 public:
  Discriminator() : net_(add("", Sequence(Linear(2, kWidth), Tanh(), Linear(kWidth, kWidth), Tanh(), Linear(kWidth, 1)))) {}
  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override {
    Call constant = call;
    for (Var& weight : constant.parameters) weight = weight.detach();
    const auto blurred = [&](const Var& points) { return points + Var(call.normal(points.shape()) * 0.4); };
    const Var real = blurred(call.inputs[0]), made = blurred(call.inputs[1]);
    return concat({run(call, net_, {real}), run(call, net_, {made.detach()}), run(constant, net_, {made})}, 1);
  }

 private:
  int net_;
};

int main(int argc, char** argv) {
  Graph net;
  const auto noise = net.input("noise", {kNoise}), real = net.input("real", {2}), wanted = net.input("wanted", {3});
  const auto x = net.add("generator", Sequence(Linear(kNoise, kWidth), Tanh()), noise);
  const auto made = net.add("made", Sequence(Linear(kWidth, kWidth), Tanh(), Linear(kWidth, 2)), x);
  net.output(made);
  net.loss(net.add("loss", BinaryCrossEntropy(), {net.add("discriminator", Discriminator(), {real, made}), wanted}));

  const auto plan = parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = 256, .micro_batches = 2});
  parallel::Trainer trainer(net, plan, Adam({.lr = 1e-3, .beta1 = 0.5}));
  const Tensor answers =
      tensor({1.0, 0.0, 1.0}).expand({256, 3});  // the discriminator's for real and made points, and the one that the generator wants
  const auto batch = [&](uint64_t number) {
    return batch_of({{"noise", randn({256, kNoise}, 3 * number)}, {"real", ring(256, 3 * number + 1)}, {"wanted", answers}});
  };
  for (uint64_t step = 0; step < 5000; ++step) trainer.step(batch(step));

  const Tensor points = trainer.evaluate(batch(1 << 20), true).output;
  double found = 0, near = 0;
  for (int cluster = 0; cluster < 8; ++cluster) {
    const double angle = cluster * std::numbers::pi / 4;
    const Tensor centre = tensor({2 * std::cos(angle), 2 * std::sin(angle)});
    const double share = mean(cast(less(sqrt(sum(square(points - centre), {1})), 0.3), DType::f32)).item();
    found += share > 0.03, near += share;
  }
  std::printf("clusters %.0f of 8, points near one %.2f\n", found, near);
  std::printf("weights %s\n", trainer.weights_hash().c_str());
}
