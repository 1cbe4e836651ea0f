// An op with kernels of one's own: snake(x) = x + sin(a x)^2 / a with a learned `a` for each channel (arXiv:2006.08195), as a layer of a network that
// learns a wave and goes on with it.
//   custom_op [DEVICES]     custom_op cpu:0,cpu:1
#include <sluice/sluice.h>

#include <cmath>
#include <cstdio>

using namespace sluice;
using namespace sluice::layers;

/// Calls f<T>(i, channel) for all elements of x on the device's threads.
template <class F>
void each_element(const char* op, const Tensor& x, const Tensor& a, const F& f) {
  const auto count = x.elements(), channels = a.elements();
  const Cost cost{.flops = 20.0 * double(count), .bytes_read = double(x.bytes()), .bytes_written = double(x.bytes())};
  const auto run = [&]<class T>() {
    return ExternalKernel{.cpu = [&](Cpu& cpu) {
      cpu.parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f.template operator()<T>(i, i % channels);
      });
    }};
  };
  on_float(x.dtype(), op, [&]<class T>() { run_external(op, {x, a}, cost, run.template operator()<T>()); });
}

Var snake(const Var& x, const Var& a) {
  const Tensor from = x.value().contiguous(), rate = a.value().contiguous(), y = empty_like(from);
  each_element("snake", from, rate, [&]<class T>(int64_t i, int64_t channel) {
    const auto value = double(from.data<T>()[i]), r = double(rate.data<T>()[channel]), s = std::sin(r * value);
    y.data<T>()[i] = T(value + s * s / r);
  });
  return record("snake", y, {x, a}, {from, rate}, {}, [](const Node& node, const Tensor& dy, Needs) {
    const Tensor &from = node.saved[0], &rate = node.saved[1], gradient = dy.contiguous(), dx = empty_like(from), da = empty_like(from);
    each_element("snake_backward", from, rate, [&]<class T>(int64_t i, int64_t channel) {
      const auto value = double(from.data<T>()[i]), r = double(rate.data<T>()[channel]), g = double(gradient.data<T>()[i]);
      const double s = std::sin(r * value), slope = std::sin(2 * r * value);
      dx.data<T>()[i] = T(g * (1 + slope));
      da.data<T>()[i] = T(g * (value * slope / r - s * s / (r * r)));
    });
    return Gradients{dx, sum_to(da, rate.shape())};
  });
}

/// The op as a layer.
class Snake : public Module {
 public:
  explicit Snake(int64_t channels) : channels_(channels) {}
  std::vector<ParameterSpec> parameters() const override { return {{"a", {channels_}, Initializer::uniform(0.5, 4), false}}; }
  Var forward(const Call& call) const override { return snake(call.inputs[0], call.parameters[0]); }

 private:
  int64_t channels_;
};

data::TensorDataset::Inputs wave(const Tensor& time) { return {{"time", time}, {"height", sin(time * 3.0) + cos(time * 5.0) * 0.5}}; }

int main(int argc, char** argv) {
  gradient_check([](const auto& x) { return snake(x[0], x[1]); }, {randn({4, 3}, 1, DType::f64), rand({3}, 2, DType::f64) + 0.5});

  Graph net;
  const auto time = net.input("time", {1}), height = net.input("height", {1});
  auto x = net.add("first", Sequence(Linear(1, 64), Snake(64)), time);
  x = net.add("last", Linear(64, 1), x);
  net.loss(net.add("loss", MeanSquaredError(), {x, height}));

  const auto seen = wave(rand({4096, 1}, 3) * 6.0 - 3.0), later = wave(rand({512, 1}, 4) + 3.0);
  const auto plan = parallel::plan(net, devices(argc > 1 ? argv[1] : "cpu:0"), {.batch = 256, .micro_batches = 4});
  parallel::Trainer trainer(net, plan, Adam({.lr = 1e-2}));
  training::Loop loop(trainer, std::make_shared<data::TensorDataset>(seen, later), {.steps = 3000, .batch = 256});
  loop.run();
  std::printf("mean squared error beyond what was seen %.4f\n", loop.history().best()->loss);
  std::printf("weights %s\n", trainer.weights_hash().c_str());
}
