#include "models/unet.h"

#include <vector>

#include "autograd/ops/concat.h"
#include "autograd/ops/upsample.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/pooling.h"

namespace sluice::models {

using namespace layers;

namespace {

constexpr int64_t kMostDepth = 16, kMostConvolutions = 1000, kMostChannels = 1 << 20;

void check(const UNetOptions& options) {
  const auto within = [](const char* key, int64_t value, int64_t least, int64_t most) {
    require(least <= value && value <= most, "model.", key, ": needs a number from ", least, " to ", most, ", got ", value);
  };
  within("depth", options.depth, 1, kMostDepth);
  within("convolutions", options.convolutions, 1, kMostConvolutions);
  within("filters", options.filters, 2, kMostChannels);
  within("classes", options.classes, 1, kMostChannels);
  within("channels", options.channels, 1, kMostChannels);
  require(options.filters % 2 == 0, "model.filters: U-Net needs an even number, half of which its last level has, got ", options.filters);
  require(options.filters << options.depth <= kMostChannels, "model.filters: U-Net needs at most ", kMostChannels,
          " channels at its bottom, got ", options.filters, " doubled ", options.depth, " times; use fewer, or a smaller model.depth");
  check_probability(options.dropout);
  const int64_t least = int64_t{1} << options.depth;
  require(options.image_size >= least, "model.image_size: U-Net of depth ", options.depth, " needs images of at least ", least,
          " pixels, of which its halvings leave one, got ", options.image_size, "; use larger images or a smaller model.depth");
}

/// Twice the height and width, as far as the skip goes, and the skip's channels beside it. Inputs {x, skip}.
class UpAndJoin : public Module {
 public:
  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override {
    const Var &x = call.inputs[0], &skip = call.inputs[1];
    return concat({upsample2d(x, 2, skip.dim(1), skip.dim(2)), skip}, 3);
  }
};

struct Channels {
  int64_t in, mid, out;
};

/// The convolutions of a level, each a node: in -> mid -> ... -> mid -> out. `dropout` is of the last one's output.
Value add_level(Graph& graph, const std::string& name, Value x, const Channels& channels, int64_t convolutions, double dropout = 0) {
  constexpr Window kThree{.size_h = 3, .size_w = 3};
  int64_t in = channels.in;
  for (int64_t i = 0; i < convolutions; ++i) {
    const bool is_last = i == convolutions - 1;
    const int64_t out = is_last ? channels.out : channels.mid;
    auto node = Sequence().then("conv", Conv2d(in, out, kThree)).then("norm", BatchNorm(out, {.relu = true}));
    if (is_last && dropout > 0) node = std::move(node).then("dropout", Dropout(dropout));
    x = graph.add(name + "_conv" + std::to_string(i), std::move(node), x);
    in = out;
  }
  return x;
}

}  // namespace

Graph unet(const UNetOptions& options) {
  check(options);
  constexpr Window kHalve{.size_h = 2, .size_w = 2, .stride_h = 2, .stride_w = 2};
  Graph graph;
  const Value image = graph.input("image", {options.image_size, options.image_size, options.channels});
  const Value mask = graph.input("mask", {options.image_size, options.image_size}, DType::i32);
  Value x = image;
  std::vector<Value> skips;
  int64_t filters = options.filters;
  for (int64_t level = 0; level < options.depth; ++level, filters *= 2) {
    const std::string name = "encoder" + std::to_string(level);
    x = add_level(graph, name, x, {level == 0 ? options.channels : filters / 2, filters, filters}, options.convolutions);
    skips.push_back(x);
    x = graph.add(name + "_pool", MaxPool2d(kHalve), x);
  }
  x = add_level(graph, "bottom", x, {filters / 2, filters, filters / 2}, options.convolutions, options.dropout);
  for (int64_t level = options.depth - 1; level >= 0; --level, filters /= 2) {
    const std::string name = "decoder" + std::to_string(level);
    x = graph.add(name + "_up", UpAndJoin(), {x, skips[static_cast<size_t>(level)]});
    x = add_level(graph, name, x, {filters, filters / 4, filters / 4}, options.convolutions);
  }
  const Value logits = graph.add("segment", Linear(filters / 2, options.classes, false), x);
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(options.label_smoothing), {logits, mask}));
  return graph;
}

}  // namespace sluice::models
