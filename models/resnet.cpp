#include "models/resnet.h"

#include "autograd/ops/elementwise.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/pooling.h"
#include "layers/squeeze_excitation.h"

namespace sluice::models {

using namespace layers;

namespace {

constexpr int64_t kExpansion = 4;          // a block's channels are so many times its inner ones
constexpr int64_t kLeastOfLargeStem = 64;  // pixels
constexpr int64_t kLeastSize = 8;          // pixels, of which the three strides leave one
constexpr int64_t kMostFilters = 1 << 16;

void check(const ResNetOptions& options) {
  const auto positive = [](const char* key, int64_t value) { require(value > 0, "model.", key, ": needs a number > 0, got ", value); };
  for (const int64_t blocks : options.blocks) positive("blocks", blocks);
  require(options.filters > 0 && options.filters <= kMostFilters, "model.filters: needs 1 to ", kMostFilters, " channels, got ",
          options.filters);
  positive("classes", options.classes);
  positive("channels", options.channels);
  require(options.image_size >= kLeastSize, "model.image_size: ResNet needs images of at least ", kLeastSize,
          " pixels, of which its strides leave one, got ", options.image_size);
}

Window square(int64_t size, int64_t stride = 1) { return {.size_h = size, .size_w = size, .stride_h = stride, .stride_w = stride}; }

/// Convolution, BatchNorm, ReLU.
Sequence conv_norm_relu(int64_t in, int64_t out, const Window& window) {
  return Sequence().then("conv", Conv2d(in, out, window)).then("norm", BatchNorm(out, {.relu = true}));
}

/// The end of a block. Inputs {the block's inner output, the block's input}.
class Expand : public Composite {
 public:
  Expand(int64_t inner, int64_t in, int64_t stride, bool squeeze_excitation) {
    const int64_t out = inner * kExpansion;
    conv_ = add("conv", Conv2d(inner, out, {}));
    norm_ = add("norm", BatchNorm(out, {.zero_gamma = true}));
    if (squeeze_excitation) excitation_ = add("excitation", SqueezeExcitation(out));
    if (in != out || stride != 1)
      shortcut_ = add("shortcut", Sequence().then("conv", Conv2d(in, out, square(1, stride))).then("norm", BatchNorm(out)));
  }

  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override {
    Var y = run(call, norm_, {run(call, conv_, {call.inputs[0]})});
    if (excitation_ >= 0) y = run(call, excitation_, {y});
    return relu(sluice::add(y, shortcut_ < 0 ? call.inputs[1] : run(call, shortcut_, {call.inputs[1]})));
  }

 private:
  int conv_, norm_, excitation_ = -1, shortcut_ = -1;  ///< children; -1 for none
};

Sequence stem(const ResNetOptions& options) {
  if (options.image_size < kLeastOfLargeStem) return conv_norm_relu(options.channels, options.filters, square(3));
  return conv_norm_relu(options.channels, options.filters, square(7, 2)).then("pool", MaxPool2d(square(3, 2)));
}

/// Adds a block; returns its output, which has kExpansion * inner channels.
Value add_block(Graph& graph, const std::string& name, Value x, int64_t in, int64_t inner, int64_t stride, bool squeeze_excitation) {
  Value h = graph.add(name + "_reduce", conv_norm_relu(in, inner, {}), x);
  h = graph.add(name + "_spatial", conv_norm_relu(inner, inner, square(3, stride)), h);
  return graph.add(name + "_expand", Expand(inner, in, stride, squeeze_excitation), {h, x});
}

}  // namespace

Graph resnet(const ResNetOptions& options) {
  check(options);
  Graph graph;
  const Value image = graph.input("image", {options.image_size, options.image_size, options.channels});
  const Value label = graph.input("label", {}, DType::i32);
  Value x = graph.add("stem", stem(options), image);
  int64_t channels = options.filters, inner = options.filters;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage, inner *= 2)
    for (int64_t block = 0; block < options.blocks[stage]; ++block) {
      const std::string name = "stage" + std::to_string(stage + 1) + "_block" + std::to_string(block);
      x = add_block(graph, name, x, channels, inner, stage > 0 && block == 0 ? 2 : 1, options.squeeze_excitation);
      channels = inner * kExpansion;
    }
  const Value logits = graph.add("head",
                                 Sequence()
                                     .then("average", GlobalAveragePool())
                                     .then("dropout", Dropout(options.dropout))
                                     .then("classifier", Linear(channels, options.classes)),
                                 x);
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(options.label_smoothing), {logits, label}));
  return graph;
}

}  // namespace sluice::models
