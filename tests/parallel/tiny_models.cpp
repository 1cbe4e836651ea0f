#include "tests/parallel/tiny_models.h"

#include "autograd/ops/elementwise.h"
#include "layers/batch_norm.h"
#include "layers/pooling.h"

namespace sluice::testing {

Var Sum::forward(const layers::Call& call) const {
  Var total = call.inputs[0];
  for (size_t i = 1; i < call.inputs.size(); ++i) total = add(total, call.inputs[i]);
  return total;
}

layers::Graph skip_graph() {
  using namespace layers;
  Graph graph;
  const Value image = graph.input("image", {6});
  const Value label = graph.input("label", {}, DType::i32);
  const Value stem = graph.add("stem", Linear(6, 8), image);
  const Value a = graph.add("a", Linear(8, 8), stem);
  const Value b = graph.add("b", GELU(), a);
  const Value c = graph.add("c", Sum(), {b, stem});
  const Value d = graph.add("d", Dropout(0.2), c);
  const Value e = graph.add("e", Linear(8, 8), d);
  const Value f = graph.add("f", Sum(), {e, stem, a, stem});
  const Value g = graph.add("g", Linear(8, 8), f);
  const Value late = graph.add("late", Linear(6, 8), image);
  const Value h = graph.add("h", Sum(), {g, stem, c, f, late});
  const Value logits = graph.add("logits", Linear(8, 5), h);
  graph.output(logits);
  graph.output(c);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  return graph;
}

layers::Graph image_graph() {
  using namespace layers;
  Graph graph;
  const Value image = graph.input("image", {5, 6, 3});
  const Value label = graph.input("label", {}, DType::i32);
  const Value norm = graph.add("norm", BatchNorm(3), image);
  const Value stem = graph.add("stem", Linear(3, 6), norm);
  const Value pool = graph.add("pool", MaxPool2d({3, 3, 2, 2}), stem);
  const Value block = graph.add("block", Sequence().then("linear", Linear(6, 8)).then("norm", BatchNorm(8, {.relu = true})), pool);
  const Value average = graph.add("average", AveragePool2d({3, 3}), block);
  const Value features = graph.add("features", GlobalAveragePool(), average);
  const Value logits = graph.add("logits", Linear(8, 5), features);
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  return graph;
}

Batch image_batch(int64_t samples, uint64_t seed) {
  Tensor image = empty({samples, 5, 6, 3}, DType::f32);
  fill_normal(image, 0.5, 2, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", random_tokens({samples}, 5, seed)}});
}

Batch skip_batch(int64_t samples, uint64_t seed) {
  Tensor image = empty({samples, 6}, DType::f32);
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", random_tokens({samples}, 5, seed)}});
}

TinyModel tiny_classifier(int64_t samples) {
  return {image_graph(), [samples](uint64_t seed) { return image_batch(samples, seed); }};
}

TinyModel tiny_language_model(int64_t samples) {
  const auto options = tiny_transformer_options();
  return {models::transformer_lm(options), [options, samples](uint64_t seed) { return token_batch(options, samples, seed); }};
}

}  // namespace sluice::testing
