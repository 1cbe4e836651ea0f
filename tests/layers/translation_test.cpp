#include "models/translation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/ops/elementwise.h"
#include "core/random.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::models {
namespace {

using sluice::testing::drawn_parameters;
using sluice::testing::run_in_f64;

/// T(L, H, A) of GPipe, with two tables of the vocabulary.
TranslationOptions paper_options(int64_t layers, int64_t ffn, int64_t heads) {
  TranslationOptions options;
  options.encoder_layers = options.decoder_layers = layers;
  options.dim = 1024;
  options.ffn = ffn;
  options.heads = heads;
  options.vocab = 64000;
  options.shared_embeddings = EmbeddingSharing::target;
  return options;
}

/// As the header has it.
int64_t formula(const TranslationOptions& of) {
  const int64_t d = of.dim, a = of.heads * of.head_width, h = of.ffn, tables = static_cast<int64_t>(of.shared_embeddings) + 1;
  const int64_t encoder_layer = 4 * d * a + 2 * d * h + 3 * a + h + 6 * d, decoder_layer = 8 * d * a + 2 * d * h + 6 * a + h + 9 * d;
  return of.encoder_layers * encoder_layer + of.decoder_layers * decoder_layer + 4 * d + tables * of.vocab * d +
         (tables == 3 ? of.vocab : 0);
}

TEST(Translation, HasThePapersParameters) {
  struct Size {
    int64_t layers, ffn, heads, parameters;
    double of_paper;  ///< as it is printed, rounded
  };
  for (const auto& [layers, ffn, heads, parameters, of_paper] : {Size{6, 8192, 16, 408'145'920, 0.4e9},
                                                                 {24, 8192, 16, 1'239'355'392, 1.3e9},
                                                                 {12, 16384, 32, 1'239'171'072, 1.3e9},
                                                                 {32, 16384, 32, 3'085'996'032, 3e9},
                                                                 {64, 16384, 32, 6'040'915'968, 6e9}}) {
    const TranslationOptions options = paper_options(layers, ffn, heads);
    EXPECT_EQ(translation_model(options).parameter_count(), formula(options));
    EXPECT_EQ(formula(options), parameters);
    EXPECT_NEAR(static_cast<double>(parameters), of_paper, 0.05 * of_paper);
  }
}

TranslationOptions tiny_options() {
  TranslationOptions options;
  options.encoder_layers = options.decoder_layers = 2;
  options.dim = 8;
  options.heads = 2;
  options.head_width = 3;
  options.ffn = 10;
  options.vocab = 11;
  options.source_context = 6;
  options.target_context = 5;
  return options;
}

TEST(Translation, HasTheParametersOfItsFormula) {
  for (const auto embeddings : {EmbeddingSharing::all, EmbeddingSharing::target, EmbeddingSharing::none})
    for (const int64_t encoder_layers : {1, 3}) {
      TranslationOptions options = tiny_options();
      options.shared_embeddings = embeddings;
      options.encoder_layers = encoder_layers;
      EXPECT_EQ(translation_model(options).parameter_count(), formula(options));
      options.positions = PositionEncoding::learned;
      EXPECT_EQ(translation_model(options).parameter_count(), formula(options) + (6 + 5) * options.dim);
      options.positions = PositionEncoding::sinusoidal;
      options.norm = Normalization::rms_norm;
      EXPECT_EQ(translation_model(options).parameter_count(), formula(options) - (2 * encoder_layers + 3 * 2 + 2) * options.dim);
    }
}

TEST(Translation, LeadsTheEncodersOutputToEveryDecoderLayer) {
  const layers::Graph graph = translation_model(tiny_options());
  std::string inputs, names;
  for (const auto& input : graph.inputs()) inputs += input.name + " ";
  EXPECT_EQ(inputs, "source source_length target target_length labels ");
  int memory = -1;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto& node = graph.nodes()[i];
    names += node.name + " ";
    if (node.name == "encoder_norm") memory = graph.value_of(static_cast<int>(i));
    if (!node.name.ends_with("cross_attention")) continue;
    ASSERT_EQ(node.inputs.size(), 4u);
    EXPECT_EQ(std::vector<int>(node.inputs.begin() + 1, node.inputs.end()), (std::vector<int>{memory, 1, 3})) << node.name;
  }
  EXPECT_EQ(names,
            "source_embedding encoder0.attention encoder0.feed_forward_in encoder0.feed_forward_out encoder1.attention "
            "encoder1.feed_forward_in encoder1.feed_forward_out encoder_norm target_embedding decoder0.self_attention "
            "decoder0.cross_attention decoder0.feed_forward_in decoder0.feed_forward_out decoder1.self_attention "
            "decoder1.cross_attention decoder1.feed_forward_in decoder1.feed_forward_out decoder_norm logits loss ");
  EXPECT_EQ(graph.nodes()[static_cast<size_t>(graph.output_node())].name, "logits");
}

TEST(Translation, StartsFeedForwardLayersSmallerTheMoreThereAre) {
  const auto deviation = [](const TranslationOptions& options, const std::string& name) {
    const layers::Graph graph = translation_model(options);
    for (const auto& parameter : graph.parameters())
      if (parameter.name == name) return parameter.spec.initializer.standard_deviation;
    return 0.0;
  };
  TranslationOptions options = tiny_options();
  const double scaled = deviation(options, "decoder1.feed_forward_out.weight");
  options.scale_initialization = false;
  EXPECT_DOUBLE_EQ(scaled, deviation(options, "decoder1.feed_forward_out.weight") / 4);
  EXPECT_DOUBLE_EQ(deviation(options, "encoder0.feed_forward_out.weight"), 1 / std::sqrt(10.0));
}

struct Sample {
  std::vector<double> source, target, labels;
};

/// Inputs of the graph: samples padded to the longest, with `padding` as ids.
std::vector<Tensor> batch_of(const std::vector<Sample>& samples, double padding) {
  size_t longest_source = 0, longest_target = 0;
  for (const auto& sample : samples) {
    longest_source = std::max(longest_source, sample.source.size());
    longest_target = std::max(longest_target, sample.target.size());
  }
  std::vector<double> source, source_length, target, target_length, labels;
  const auto append = [](std::vector<double>& to, const std::vector<double>& ids, size_t length, double rest) {
    to.insert(to.end(), ids.begin(), ids.end());
    to.insert(to.end(), length - ids.size(), rest);
  };
  for (const auto& sample : samples) {
    append(source, sample.source, longest_source, padding);
    append(target, sample.target, longest_target, padding);
    append(labels, sample.labels, longest_target, -100);
    source_length.push_back(static_cast<double>(sample.source.size()));
    target_length.push_back(static_cast<double>(sample.target.size()));
  }
  const auto count = static_cast<int64_t>(samples.size()), sources = static_cast<int64_t>(longest_source),
             targets = static_cast<int64_t>(longest_target);
  return {tensor_of(source, {count, sources}, DType::i32), tensor_of(source_length, {count}, DType::i32),
          tensor_of(target, {count, targets}, DType::i32), tensor_of(target_length, {count}, DType::i32),
          tensor_of(labels, {count, targets}, DType::i32)};
}

std::vector<Sample> samples() {
  return {{{3, 1, 4, 1, 5, 9}, {2, 6, 5}, {6, 5, 3}}, {{2}, {1, 8, 2, 8, 4}, {8, 2, 8, 4, 5}}, {{7, 1, 8}, {9}, {0}}};
}

/// The loss, then the gradient of every parameter.
std::vector<Tensor> loss_and_gradients(const layers::Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Var> leaves;
  for (const Tensor& parameter : drawn_parameters(graph, 1)) leaves.push_back(Var::parameter(parameter));
  const Var loss = run_in_f64(graph, inputs, leaves)[static_cast<size_t>(graph.loss_node())];
  std::vector<Tensor> all = gradients(loss, full({}, 1, DType::f64), leaves);
  all.insert(all.begin(), loss.value());
  return all;
}

TEST(Translation, HasTheGradientsOfDifferences) {
  TranslationOptions options = tiny_options();
  options.dropout = 0.1;
  options.label_smoothing = 0.1;
  sluice::testing::expect_gradients_like_differences(translation_model(options), batch_of(samples(), 0));
  options.shared_embeddings = EmbeddingSharing::none;
  options.positions = PositionEncoding::rotary;
  options.head_width = 4;
  options.norm = Normalization::rms_norm;
  options.activation = layers::Activation::Kind::gelu_tanh;
  options.logit_clip = 1;
  sluice::testing::expect_gradients_like_differences(translation_model(options), batch_of(samples(), 0));
}

TEST(Translation, OfAPaddedBatchIsThatOfItsSamplesAlone) {
  const layers::Graph graph = translation_model(tiny_options());
  const auto together = loss_and_gradients(graph, batch_of(samples(), 10));
  std::vector<Tensor> sums;
  for (const Sample& sample : samples()) {
    const auto alone = loss_and_gradients(graph, batch_of({sample}, 0));
    sums.resize(alone.size());
    for (size_t i = 0; i < alone.size(); ++i) sums[i] = sums[i].defined() ? add(sums[i], alone[i]) : alone[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto found = together[i].to_vector(), expected = sums[i].to_vector();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t j = 0; j < found.size(); ++j)
      EXPECT_NEAR(found[j], expected[j], 1e-12) << (i ? graph.parameters()[i - 1].name : "loss") << ", element " << j;
  }
}

TEST(Translation, DoesNotDependOnTheIdsOfPadding) {
  TranslationOptions options = tiny_options();
  options.dropout = 0.2;
  const layers::Graph graph = translation_model(options);
  const auto first = loss_and_gradients(graph, batch_of(samples(), 0)), other = loss_and_gradients(graph, batch_of(samples(), 10));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].to_vector(), other[i].to_vector());
}

TEST(Translation, RefusesBadOptions) {
  const auto refuse = [](const std::function<void(TranslationOptions&)>& change, const char* key) {
    TranslationOptions options = tiny_options();
    change(options);
    expect_error<UsageError>([&] { translation_model(options); }, {key});
  };
  refuse([](auto& of) { of.encoder_layers = 0; }, "model.encoder_layers");
  refuse([](auto& of) { of.decoder_layers = -1; }, "model.decoder_layers");
  refuse([](auto& of) { of.vocab = 0; }, "model.vocab");
  refuse([](auto& of) { of.target_context = 0; }, "model.target_context");
  refuse([](auto& of) { of.logit_clip = -1; }, "model.logit_clip");
  refuse([](auto& of) { of.head_width = -1; }, "model.head_width");
  refuse([](auto& of) { of.head_width = 0, of.heads = 3; }, "3 heads for width 8");
  refuse([](auto& of) { of.ffn = -1; }, "model.ffn");
  refuse([](auto& of) { of.dropout = 1; }, "Dropout");
  refuse([](auto& of) { of.label_smoothing = 1; }, "label smoothing");
}

}  // namespace
}  // namespace sluice::models
