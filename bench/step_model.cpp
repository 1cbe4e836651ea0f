#include "bench/step_model.h"

#include <limits>
#include <numeric>

#include "models/amoebanet.h"
#include "models/transformer.h"
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

StepModel gpt(int64_t layers, int64_t dim, int64_t heads, int64_t vocab, int64_t context) {
  models::TransformerOptions options;
  options.layers = layers;
  options.dim = dim;
  options.heads = heads;
  options.vocab = vocab;
  options.context = context;
  const auto batch = [=](int64_t samples) {
    const Shape shape{samples, context};
    return batch_of({{"tokens", random_integers(shape, vocab, 1)}, {"targets", random_integers(shape, vocab, 2)}});
  };
  auto graph = models::transformer_lm(options);
  const auto parameters = static_cast<double>(graph.parameter_count());
  const double flops_a_token = 6 * parameters + 6 * static_cast<double>(layers * dim * context);
  return {std::move(graph), batch,   std::make_unique<Adam>(Adam::Options{.lr = 1e-3}),
          "tokens",         context, flops_a_token * static_cast<double>(context),
          "6N + 6LCT"};
}

double forward_flops(const layers::Graph& graph) {
  const DeviceSpeed arithmetic_alone{.flops_per_second = 1, .bytes_per_second = std::numeric_limits<double>::infinity()};
  double flops = 0;
  for (const auto& node : parallel::counted_nodes(graph, 1, arithmetic_alone, Precision::f32, SGD({}))) flops += node.forward;
  return flops;
}

StepModel amoebanet(const ImageSizes& sizes) {
  models::AmoebaNetOptions options;
  options.layers = sizes.layers;
  options.filters = sizes.filters;
  options.image_size = sizes.image_size;
  options.classes = 10;
  const auto batch = [options](int64_t samples) {
    Tensor images = empty({samples, options.image_size, options.image_size, options.channels}, DType::f32);
    fill_normal(images, 0, 1, random_key(1, "image"));
    return batch_of({{"image", images}, {"label", random_integers({samples}, options.classes, 2)}});
  };
  auto graph = models::amoebanet(options);
  const double flops = 3 * forward_flops(graph);
  return {std::move(graph), batch, std::make_unique<SGD>(SGD::Options{.lr = 0.01}), "images", 1, flops, "3 x forward's"};
}

}  // namespace

StepModel step_model(const std::string& name, const ImageSizes& sizes) {
  require<UsageError>(name == "gpt" || name == "gpt-bytes" || name == "gpt2-124m" || name == "amoebanet",
                      "model: needs gpt, gpt-bytes, gpt2-124m or amoebanet, got ", name);
  if (name == "amoebanet") return amoebanet(sizes);
  if (name == "gpt-bytes") return gpt(6, 384, 6, 256, 256);
  return name == "gpt" ? gpt(6, 384, 6, 8192, 256) : gpt(12, 768, 12, 50257, 1024);
}

}  // namespace sluice::bench
