#include "bench/step_model.h"

#include <limits>
#include <numeric>

#include "core/random.h"
#include "data/parallel/synthetic_translation.h"
#include "data/parallel/token_budget_sampler.h"
#include "layers/combine.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "layers/mixture_of_experts.h"
#include "layers/normalization.h"
#include "layers/recurrent.h"
#include "models/amoebanet.h"
#include "models/transformer.h"
#include "models/translation.h"
#include "parallel/plan.h"

namespace sluice::bench {

namespace {

Tensor random_integers(const Shape& shape, int64_t limit, uint64_t seed) {
  Tensor x = empty(shape, DType::i32);
  int32_t* data = x.data<int32_t>();
  for (int64_t i = 0; i < x.elements(); ++i)
    data[i] = static_cast<int32_t>(philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(seed), 0})[0] % limit);
  return x;
}

StepModel gpt(int64_t layers, int64_t dim, int64_t heads, int64_t vocab, int64_t context, int64_t samples) {
  models::TransformerOptions options;
  options.layers = layers;
  options.dim = dim;
  options.heads = heads;
  options.vocab = vocab;
  options.context = context;
  const Shape shape{samples, context};
  auto graph = models::transformer_lm(options);
  const auto parameters = static_cast<double>(graph.parameter_count()), tokens = static_cast<double>(samples * context);
  const double flops_a_token = 6 * parameters + 6 * static_cast<double>(layers * dim * context);
  return {std::move(graph),
          {batch_of({{"tokens", random_integers(shape, vocab, 1)}, {"targets", random_integers(shape, vocab, 2)}})},
          std::make_unique<Adam>(Adam::Options{.lr = 1e-3}),
          "tokens",
          tokens,
          flops_a_token * tokens,
          "6N + 6LCT"};
}

Tensor random_values(const Shape& shape, const char* name) {
  Tensor x = empty(shape, DType::f32);
  fill_normal(x, 0, 1, random_key(1, name));
  return x;
}

/// Of a sample.
double forward_flops(const layers::Graph& graph) {
  const DeviceSpeed arithmetic_alone{.flops_per_second = 1, .bytes_per_second = std::numeric_limits<double>::infinity()};
  double flops = 0;
  for (const auto& node : parallel::counted_nodes(graph, 1, arithmetic_alone, Precision::f32, SGD({}))) flops += node.forward;
  return flops;
}

StepModel amoebanet(const ImageSizes& sizes, int64_t samples) {
  models::AmoebaNetOptions options;
  options.layers = sizes.layers;
  options.filters = sizes.filters;
  options.image_size = sizes.image_size;
  options.classes = 10;
  const Tensor images = random_values({samples, options.image_size, options.image_size, options.channels}, "image");
  auto graph = models::amoebanet(options);
  const double flops = 3 * forward_flops(graph) * static_cast<double>(samples);
  return {std::move(graph),
          {batch_of({{"image", images}, {"label", random_integers({samples}, options.classes, 2)}})},
          std::make_unique<SGD>(SGD::Options{.lr = 0.01}),
          "images",
          static_cast<double>(samples),
          flops,
          "3 x forward's"};
}

/// Two residual layers of experts, whose sum has to be a random target.
layers::Graph mixture_graph(const Shape& sample) {
  using namespace layers;
  const Experts::Options options{.width = sample[1], .inner = 4 * sample[1], .experts = 8};
  Graph graph;
  Value x = graph.input("x", sample);
  const Value target = graph.input("target", sample);
  auto loss = LossSum().with("error", MeanSquaredError(), 1, {0, 1});
  std::vector<Value> judged{x, target};
  for (const std::string name : {"first", "second"}) {
    const auto mixture = add_mixture_of_experts(graph, name, options, graph.add(name + ".norm", LayerNorm(sample[1]), x));
    x = graph.add(name + ".sum", Add(), {x, mixture.output});
    loss = std::move(loss).with(name, BalanceLoss(options.chosen), 0.01, {static_cast<int>(judged.size())});
    judged.push_back(mixture.probabilities);
  }
  judged[0] = x;
  graph.loss(graph.add("loss", std::move(loss), judged));
  return graph;
}

StepModel mixture_of_experts(int64_t samples) {
  const int64_t tokens = 256, width = 384;
  auto graph = mixture_graph({tokens, width});
  const double flops = 3 * forward_flops(graph) * static_cast<double>(samples);
  const Shape shape{samples, tokens, width};
  return {std::move(graph),
          {batch_of({{"x", random_values(shape, "x")}, {"target", random_values(shape, "target")}})},
          std::make_unique<Adam>(Adam::Options{.lr = 1e-3}),
          "tokens",
          static_cast<double>(samples * tokens),
          flops,
          "3 x forward's"};
}

/// One recurrent layer, whose states have to be a random target.
template <class Layer>
StepModel recurrent(int64_t steps, int64_t samples) {
  using namespace layers;
  const int64_t width = 256;
  Graph graph;
  const Value x = graph.input("x", {steps, width}), target = graph.input("target", {steps, width});
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("layer", Layer(width, width), x), target}));
  const double flops = 3 * forward_flops(graph) * static_cast<double>(samples);
  const Shape shape{samples, steps, width};
  return {std::move(graph),
          {batch_of({{"x", random_values(shape, "x")}, {"target", random_values(shape, "target")}})},
          std::make_unique<Adam>(Adam::Options{.lr = 1e-3}),
          "items of sequences",
          static_cast<double>(samples * steps),
          flops,
          "3 x forward's"};
}

models::TranslationOptions translation_options(int64_t source_tokens, int64_t target_tokens) {
  models::TranslationOptions options;
  options.encoder_layers = options.decoder_layers = 3;
  options.dim = 384;
  options.heads = 6;
  options.vocab = 8192;
  options.source_context = source_tokens;
  options.target_context = target_tokens;
  return options;
}

constexpr int64_t kLongestSource = 128, kLongestTarget = 126;  // 125 letters, with tags and end
constexpr int64_t kPaddedBatches = 8;

std::shared_ptr<const data::TranslationDataset> sentences(bool of_one_length) {
  data::SyntheticTranslationOptions options;
  options.vocabulary = 8192;
  options.longest = kLongestTarget - 1;
  options.shortest = of_one_length ? options.longest : 2;
  options.buckets = 10;
  return data::synthetic_translation(options);
}

/// A mini-batch whose inputs are there, so that loading takes no part in a step.
std::map<std::string, Tensor> loaded(const data::TranslationDataset& dataset, const std::vector<int64_t>& samples) {
  std::map<std::string, Tensor> inputs;
  for (const auto& name : dataset.inputs()) inputs[name] = dataset.load(name, data::Split::train, 0, samples);
  return inputs;
}

int64_t sum(const Tensor& lengths) {
  const int32_t* data = lengths.data<int32_t>();
  return std::accumulate(data, data + lengths.elements(), int64_t{0});
}

StepModel translation(int64_t samples, Padding padding) {
  const auto dataset = sentences(padding == Padding::none);
  const data::TokenBudgetSampler sampler(*dataset, {.samples = samples});
  StepModel model{.graph = models::translation_model(translation_options(kLongestSource, kLongestTarget)),
                  .batches = {},
                  .optimizer = std::make_unique<Adam>(Adam::Options{.lr = 1e-3}),
                  .item = "tokens",
                  .items = 0,
                  .flops = 0,
                  .flops_rule = "3 x forward's"};
  for (int64_t number = 0; number < (padding == Padding::none ? 1 : kPaddedBatches); ++number) {
    auto inputs = loaded(*dataset, sampler.samples(0, number));
    for (const std::string side : {"source", "target"}) {
      model.items += static_cast<double>(sum(inputs[side + "_length"]));
      if (padding == Padding::worked_on) inputs[side + "_length"] = full({inputs[side].dim(0)}, inputs[side].dim(1), DType::i32);
    }
    const auto shape = translation_options(inputs["source"].dim(1), inputs["target"].dim(1));
    model.flops += 3 * forward_flops(models::translation_model(shape)) * static_cast<double>(inputs["source"].dim(0));
    model.batches.push_back(batch_of(std::move(inputs)));
  }
  return model;
}

}  // namespace

StepModel step_model(const StepModelOptions& options) {
  const auto& [name, samples, image, padding, sequence] = options;
  require<UsageError>(padding == Padding::none || name == "translation", "padding: is of the model translation, got ", name,
                      "; leave it out");
  if (name == "amoebanet") return amoebanet(image, samples);
  if (name == "moe") return mixture_of_experts(samples);
  if (name == "lstm") return recurrent<layers::LSTM>(sequence, samples);
  if (name == "gru") return recurrent<layers::GRU>(sequence, samples);
  if (name == "translation") return translation(samples, padding);
  if (name == "gpt-bytes") return gpt(6, 384, 6, 256, 256, samples);
  if (name == "gpt2-124m") return gpt(12, 768, 12, 50257, 1024, samples);
  if (name == "gpt2-1558m") return gpt(48, 1600, 25, 50257, 1024, samples);
  require<UsageError>(name == "gpt", "model: needs gpt, gpt-bytes, gpt2-124m, gpt2-1558m, amoebanet, moe, lstm, gru or translation, got ",
                      name);
  return gpt(6, 384, 6, 8192, 256, samples);
}

}  // namespace sluice::bench
