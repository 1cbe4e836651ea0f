#include "bench/gpu_cases.h"

#include <algorithm>
#include <numeric>

#include "autograd/ops/activation.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/convolution.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/cumsum.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/gather.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/masked_attention.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/normalization.h"
#include "autograd/ops/pooling.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/resize.h"
#include "autograd/ops/roll.h"
#include "autograd/ops/rotary.h"
#include "autograd/ops/select.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/sort.h"
#include "autograd/optim/optimizer.h"
#include "bench/gpu_timing.h"
#include "core/ops/comparison.h"
#include "core/ops/convolution.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/noise.h"
#include "core/ops/reduction.h"
#include "core/ops/sinusoids.h"
#include "core/ops/sums_of_squares.h"

namespace sluice::bench {

namespace {

using testing::InputSpec;
using Vars = std::vector<Var>;

constexpr int64_t kTokens = 128 * 1024, kWidth = 1024, kVocabulary = 50257;

/// Repeats a block that is made on the host, on the device where the input lies.
InputSpec large(const Shape& shape) {
  const InputSpec block = testing::randn({std::min<int64_t>(shape.elements(), 1 << 20)});
  return {block.make, [shape](const Tensor& x) { return repeated(x, shape); }};
}

/// The same in f32 whatever the row's dtype: masters, their gradients and the optimizer's states. Squares are no smaller than 0, as Adam's.
InputSpec large_f32(int64_t elements, bool squares = false) {
  InputSpec spec = large({elements});
  spec.view = [elements, squares](const Tensor& x) {
    const Tensor single = cast(x, DType::f32);
    return repeated(squares ? mul(single, single) : single, {elements});
  };
  return spec;
}

/// One length a sample, in equal steps up to the longest.
InputSpec rising_lengths(int64_t samples, int64_t longest) {
  return {[=] {
    std::vector<double> lengths;
    for (int64_t i = 1; i <= samples; ++i) lengths.push_back(static_cast<double>(i * longest / samples));
    return tensor_of(lengths, {samples}, DType::i32);
  }};
}

/// Rotates two thirds of 36 heads by a table that is made at the first call.
std::function<Var(const Vars&)> with_table(int64_t width) {
  return [width, table = Tensor()](const Vars& v) mutable {
    const Tensor& x = v[0].value();
    const DType dtype = compute_dtype(x.dtype());
    if (!table.defined() || &table.device() != &x.device() || table.dtype() != dtype)
      table = sinusoids({.count = x.dim(1), .width = width}, dtype, x.device_ptr());
    return rotary(v[0], 24, table);
  };
}

struct Rows {
  std::vector<testing::NamedCase> cases;

  /// `gradient` is false where backward only hands dy on.
  void add(const char* op, const char* name, std::vector<InputSpec> inputs, std::function<Var(const Vars&)> run, bool gradient = true) {
    cases.push_back({op, {.name = name, .inputs = std::move(inputs), .run = std::move(run), .gradient = gradient}});
  }
};

void add_rows(Rows& rows) {
  rows.add("softmax", "tokens", {large({kTokens, kWidth})}, [](const Vars& x) { return softmax(x[0]); });
  rows.add("logsumexp", "tokens", {large({kTokens, kWidth})}, [](const Vars& x) { return logsumexp(x[0]); });
  for (const int64_t width : {kWidth, 8 * kWidth}) {
    const Shape shape{kTokens * kWidth / width, width};
    const char* name = width == kWidth ? "tokens" : "wide";
    rows.add("layer_norm", name, {large(shape), large({width}), large({width})},
             [](const Vars& x) { return layer_norm(x[0], x[1], x[2]); });
    rows.add("rms_norm", name, {large(shape), large({width})}, [](const Vars& x) { return rms_norm(x[0], x[1]); });
  }
  for (const int64_t classes : {kVocabulary, kVocabulary + 47})
    rows.add("cross_entropy", classes == kVocabulary ? "gpt2_vocabulary" : "vocabulary_of_whole_packs",
             {large({8192, classes}), testing::indices({8192}, kVocabulary)},
             [](const Vars& x) { return cross_entropy(x[0], x[1].value(), {}, 1.0 / 8192); });
  rows.add("embedding", "gpt2_vocabulary", {testing::indices({kTokens}, kVocabulary), large({kVocabulary, kWidth})},
           [](const Vars& x) { return embedding(x[0].value(), x[1]); });
}

void add_resizing(Rows& rows) {
  rows.add("resize2d", "unet_top", {large({8, 96, 96, 64})}, [](const Vars& x) { return resize2d(x[0], 192, 192); });
  rows.add("adaptive_average_pool2d", "pyramid", {large({32, 64, 64, 512})},
           [](const Vars& x) { return adaptive_average_pool2d(x[0], 6, 6); });
  rows.add("roll", "swin", {large({32, 56, 56, 192})}, [](const Vars& x) { return roll(x[0], {-3, -3}, {1, 2}); });
}

/// What samples tokens and sends them to experts.
void add_indexing(Rows& rows) {
  const InputSpec tokens = large({kTokens, kWidth}), logits = large({1024, kVocabulary});
  rows.add("gather", "gpt2_vocabulary", {large({8192, kVocabulary}), testing::indices({8192, 1}, kVocabulary)},
           [](const Vars& x) { return gather(x[0], 1, x[1].value()); });
  rows.add("index_select", "tokens", {tokens, testing::indices({kTokens}, kTokens)},
           [](const Vars& x) { return index_select(x[0], 0, x[1].value()); });
  rows.add("index_add", "tokens", {tokens, testing::indices({kTokens}, kTokens), tokens},
           [](const Vars& x) { return index_add(x[0], 0, x[1].value(), x[2]); });
  rows.add("scatter_add", "experts", {large({kTokens, 64}), testing::indices({kTokens, 8}, 64), large({kTokens, 8})},
           [](const Vars& x) { return scatter_add(x[0], 1, x[1].value(), x[2]); });
  rows.add("sort", "gpt2_vocabulary", {logits}, [](const Vars& x) { return sort(x[0]).values; });
  rows.add("topk", "gpt2_vocabulary", {logits}, [](const Vars& x) { return topk(x[0], 50).values; });
  rows.add("cumsum", "gpt2_vocabulary", {logits}, [](const Vars& x) { return cumsum(x[0], 1); });
}

void add_elements(Rows& rows) {
  const InputSpec x = large({kTokens, kWidth}), hidden = large({kTokens / 2, 4 * kWidth});
  rows.add(
      "add", "residual", {x, x}, [](const Vars& v) { return add(v[0], v[1]); }, false);
  rows.add("gelu_tanh", "hidden", {hidden}, [](const Vars& v) { return unary(Unary::GeluTanh, v[0]); });
  rows.add("mish", "hidden", {hidden}, [](const Vars& v) { return mish(v[0]); });
  rows.add("elu", "hidden", {hidden}, [](const Vars& v) { return elu(v[0]); });
  rows.add("prelu", "hidden", {hidden, large({4 * kWidth})}, [](const Vars& v) { return prelu(v[0], v[1]); });
  rows.add("bias_gelu_tanh", "hidden", {hidden, large({4 * kWidth})},
           [](const Vars& v) { return bias_activation(Unary::GeluTanh, v[0], v[1]); });
  rows.add("mul_silu", "hidden", {hidden, hidden}, [](const Vars& v) { return mul_silu(v[0], v[1]); });
  const RandomStream stream{.key = 1};
  rows.add(
      "noise", "residual", {x},
      [=](const Vars& v) { return Var(noise(Noise::normal, v[0].shape(), stream, v[0].dtype(), v[0].value().device_ptr())); }, false);
  rows.add("dropout_add", "residual", {x, x}, [=](const Vars& v) { return dropout_add(v[0], v[1], 0.1, stream); });
  rows.add("clamp", "ends", {x}, [](const Vars& v) { return clamp(v[0], -1, 1); });
  rows.add("affine", "residual", {x}, [](const Vars& v) { return affine(v[0], 0.5, 1); });
  rows.add(
      "less", "residual", {x, x}, [](const Vars& v) { return Var(less(v[0].value(), v[1].value())); }, false);
  rows.add("where", "masked_scores", {testing::indices({1024, 1024}, 2, DType::u8), large({128, 1024, 1024}), large({1024})},
           [](const Vars& v) { return where(v[0].value(), v[1], v[2]); });
  rows.add("sum", "rows", {x}, [](const Vars& v) { return sum(v[0], {1}); });
  rows.add("sum", "columns", {x}, [](const Vars& v) { return sum(v[0], {0}); });
  rows.add("prod", "rows", {x}, [](const Vars& v) { return prod(v[0], {1}); });
  rows.add(
      "concat", "columns", {x, x},
      [](const Vars& v) {
        return concat({v[0], v[1]}, 1);
      },
      false);
  rows.add("rotary", "heads_of_64", {large({64, 1024, 36, 64})}, with_table(64));
}

void add_products(Rows& rows) {
  rows.add("matmul", "8192", {large({8192, 8192}), large({8192, 8192})}, [](const Vars& x) { return matmul(x[0], x[1], false, true); });
  const auto gpt2 = [&](const char* name, int64_t inputs, int64_t outputs) {
    rows.add("linear", name, {large({kTokens / 2, inputs}), large({outputs, inputs}), large({outputs})},
             [](const Vars& x) { return linear(x[0], x[1], x[2]); });
  };
  // A vocabulary that is no multiple of 8 has rows that begin at no whole 16 bytes; 50304 is what others round it up to.
  for (const int64_t vocabulary : {kVocabulary, kVocabulary + 47})
    rows.add("linear", vocabulary == kVocabulary ? "gpt2_logits_50257" : "gpt2_logits_50304",
             {large({kTokens / 8, 768}), large({vocabulary, 768})}, [](const Vars& x) { return linear(x[0], x[1]); });
  gpt2("gpt2_qkv", 768, 3 * 768);
  gpt2("gpt2_ffn_in", 768, 4 * 768);
  gpt2("gpt2_ffn_out", 4 * 768, 768);
  // The GELU in the product's epilogue, where the library's gains on this GPU, and by a kernel of ours after it.
  const std::vector<InputSpec> hidden = {large({kTokens / 2, 768}), large({4 * 768, 768}), large({4 * 768})};
  rows.add("linear_activation", "gpt2_ffn_in", hidden, [](const Vars& x) { return linear_activation(Unary::GeluTanh, x[0], x[1], x[2]); });
  rows.add("linear_activation", "gpt2_ffn_in_by_parts", hidden, [](const Vars& x) { return gelu_tanh(linear(x[0], x[1], x[2])); });
  // 96 and 256: the other widths of kernels for tensor cores, 80 is like 96.
  for (const auto& [width, name] : {std::pair(64, "width_64"), {96, "width_96"}, {128, "width_128"}, {256, "width_256"}}) {
    const Shape heads{2, 4096, 2048 / width, width};
    rows.add("attention", name, {large(heads), large(heads), large(heads)},
             [](const Vars& x) { return attention(x[0], x[1], x[2], {.causal = true}); });
  }
  rows.add("attention", "gpt2", {large({32, 1024, 3 * 768})}, [](const Vars& x) { return attention_packed(x[0], 12, {.causal = true}); });
  // A micro-batch of one sample of GPT-2: so few scores that cuDNN's deterministic backward fits the workspace.
  const Shape sample{1, 1024, 12, 64};
  rows.add("attention", "gpt2_one_sample", {large(sample), large(sample), large(sample)},
           [](const Vars& x) { return attention(x[0], x[1], x[2], {.causal = true}); });
  // With a learned bias for each head, query and key.
  rows.add("masked_attention", "gpt2_biased",
           {large({8, 1024, 12, 64}), large({8, 1024, 12, 64}), large({8, 1024, 12, 64}), large({1, 12, 1024, 1024})},
           [](const Vars& x) { return masked_attention(x[0], x[1], x[2], {.causal = true}, x[3]); });
  // A step is a product of few rows and one small kernel.
  rows.add("lstm", "units_1024", {large({32, 128, 4 * 1024}), large({4 * 1024, 1024})}, [](const Vars& x) { return lstm(x[0], x[1]); });
  rows.add("gru", "units_1024", {large({32, 128, 3 * 1024}), large({3 * 1024, 1024}), large({1024})},
           [](const Vars& x) { return gru(x[0], x[1], x[2]); });
  // Sentences of 32 to 1024 tokens, half of the tensors: costs are counted as if all were long.
  rows.add(
      "cross_attention", "half_padded", {large({32, 1024, 1024}), large({32, 1024, 2 * 1024}), rising_lengths(32, 1024)},
      [](const Vars& x) { return cross_attention_packed(x[0], x[1], 16, {.query_lengths = x[2].value(), .key_lengths = x[2].value()}); });
}

/// The parameters of GPT-2 124M.
std::vector<Shape> gpt2_parameters() {
  constexpr int64_t kWide = 768;
  std::vector<Shape> shapes{{kVocabulary, kWide}, {1024, kWide}, {kWide}, {kWide}};
  for (int layer = 0; layer < 12; ++layer)
    for (const Shape& shape :
         {Shape{kWide}, Shape{kWide}, Shape{3 * kWide, kWide}, Shape{3 * kWide}, Shape{kWide, kWide}, Shape{kWide}, Shape{kWide},
          Shape{kWide}, Shape{4 * kWide, kWide}, Shape{4 * kWide}, Shape{kWide, 4 * kWide}, Shape{kWide}})
      shapes.push_back(shape);
  return shapes;
}

int64_t elements_of(const std::vector<Shape>& shapes) {
  return std::accumulate(shapes.begin(), shapes.end(), int64_t{0}, [](int64_t sum, const Shape& shape) { return sum + shape.elements(); });
}

/// What one tensor has side by side, as tensors of these shapes.
std::vector<Tensor> parts_of(const Tensor& all, const std::vector<Shape>& shapes) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const Shape& shape : shapes) {
    parts.push_back(all.slice(0, begin, begin + shape.elements()).reshape(shape));
    begin += shape.elements();
  }
  return parts;
}

/// What follows backward in a step of GPT-2 124M: the norm of all gradients ...
void add_norm(Rows& rows) {
  const auto norm = [shapes = gpt2_parameters()](const Vars& x) {
    const Tensor sums = empty({static_cast<int64_t>(shapes.size())}, DType::f64, x[0].value().device_ptr());
    std::vector<int64_t> places(shapes.size());
    std::iota(places.begin(), places.end(), 0);
    sums_of_squares(parts_of(x[0].value(), shapes), sums, places);
    return Var(sum(sums));
  };
  rows.add("gradient_norm", "gpt2", {large_f32(elements_of(gpt2_parameters()))}, norm, false);
}

/// ... and an optimizer's step, which reads it and also writes the copies of the weights in the row's dtype.
void add_update(Rows& rows, const char* name, const Optimizer& optimizer) {
  const std::vector<Shape> shapes = gpt2_parameters();
  std::vector<Shape> states;
  for (const Shape& shape : shapes)
    for (const OptimizerState& state : optimizer.states_of(shape)) states.push_back(state.shape);
  const auto step = [shapes, states, optimizer = std::shared_ptr<const Optimizer>(optimizer.clone())](const Vars& x) {
    const auto parts = [&](size_t i, const std::vector<Shape>& of) { return parts_of(x[i].value(), of); };
    const auto weights = parts(0, shapes), gradients = parts(1, shapes), copies = parts(3, shapes), kept = parts(2, states);
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0, state = 0; i < shapes.size(); ++i) {
      slots.push_back({.parameter = weights[i], .gradient = gradients[i], .states = {}});
      for (size_t more = optimizer->states_of(shapes[i]).size(); more-- > 0;) slots.back().states.push_back(kept[state++]);
      if (copies[i].dtype() == DType::bf16) slots.back().working = copies[i];
    }
    const GradientClip clip{.sum_of_squares = full({}, 1, DType::f64, x[0].value().device_ptr()), .largest_norm = 1};
    optimizer->apply(slots, {.learning_rate = 1e-4, .step = 1, .clip = clip});
    return x[0];
  };
  const int64_t elements = elements_of(shapes);
  rows.add(name, "gpt2", {large_f32(elements), large_f32(elements), large_f32(elements_of(states), true), large({elements})}, step, false);
}

/// AmoebaNet-D (18, 256) at 224 pixels, and a layer of ResNet-50.
void add_convolutions(Rows& rows) {
  const auto row = [&](const char* name, const Shape& x, const Window& window, int64_t outputs) {
    rows.add("convolution", name, {large(x), large({outputs, window.size_h, window.size_w, x[3]})},
             [=](const Vars& v) { return conv2d(v[0], v[1], window); });
  };
  row("amoebanet_stem", {32, 224, 224, 3}, {3, 3, 2, 2, Padding::valid}, 64);
  row("amoebanet_1x7", {32, 28, 28, 128}, {1, 7}, 128);
  row("amoebanet_7x1", {32, 28, 28, 128}, {7, 1}, 128);
  row("amoebanet_1x7_stride_2", {32, 56, 56, 64}, {1, 7, 1, 2}, 64);
  row("amoebanet_3x3_stride_2", {32, 56, 56, 64}, {3, 3, 2, 2}, 64);
  row("resnet_3x3_28", {32, 28, 28, 128}, {3, 3}, 128);
}

}  // namespace

std::vector<testing::NamedCase> gpu_cases() {
  Rows rows;
  add_rows(rows);
  add_resizing(rows);
  add_indexing(rows);
  add_elements(rows);
  add_products(rows);
  add_norm(rows);
  add_update(rows, "adamw", AdamW({}));
  add_update(rows, "adafactor", Adafactor({}));
  add_convolutions(rows);
  return std::move(rows.cases);
}

}  // namespace sluice::bench
