#include "models/amoebanet.h"

#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/pooling.h"

namespace sluice::models {

using namespace layers;

namespace {

constexpr int64_t kStemChannels = 32;
constexpr double kAuxiliaryWeight = 0.4;

void check(const AmoebaNetOptions& options) {
  const auto positive = [](const char* key, int64_t value) { require(value > 0, "model.", key, ": needs a number > 0, got ", value); };
  require(options.layers >= 3, "model.layers: AmoebaNet needs at least 3 normal cells, one before each reduction and one after, got ",
          options.layers);
  require(options.filters >= 16 && options.filters % 4 == 0, "model.filters: needs a multiple of 4 of at least 16, got ", options.filters);
  positive("classes", options.classes);
  positive("channels", options.channels);
  positive("drop_path_steps", options.drop_path_steps);
  require(options.image_size >= 3, "model.image_size: needs at least 3 pixels for the stem's convolution, got ", options.image_size);
  require(options.drop_path_keep > 0 && options.drop_path_keep <= 1, "model.drop_path_keep: needs a probability in (0, 1], got ",
          options.drop_path_keep);
}

/// Adds cells one after another and remembers what the next one reads.
class CellChain {
 public:
  CellChain(Graph& graph, const AmoebaNetOptions& options, Value stem)
      : graph_(graph), options_(options), last_{stem, kStemChannels, 0}, before_(last_) {}

  void add_normal(const std::string& name, int64_t filters) { add_cell(name, normal_genotype(options_.genotype), filters, false); }
  void add_reduction(const std::string& name, int64_t filters) { add_cell(name, reduction_genotype(options_.genotype), filters, true); }
  Value output() const { return last_.value; }
  int64_t channels() const { return last_.channels; }

 private:
  struct Output {
    Value value;
    int64_t channels;
    int halvings;  ///< since the stem
  };

  void add_cell(const std::string& name, const Genotype& genotype, int64_t filters, bool is_reduction) {
    const bool is_first = last_.value.id == before_.value.id;  // of the stem there is nothing before
    const Cell cell({.genotype = &genotype,
                     .last = last_.channels,
                     .before = before_.channels,
                     .filters = filters,
                     .is_reduction = is_reduction,
                     .before_is_larger = before_.halvings < last_.halvings,
                     .takes_before_as_it_is = is_first,
                     .drop_path_keep = options_.drop_path_keep,
                     .drop_path_steps = options_.drop_path_steps});
    const Output output{graph_.add(name, cell, {last_.value, before_.value}), cell.output_channels(), last_.halvings + is_reduction};
    before_ = last_;
    last_ = output;
  }

  Graph& graph_;
  const AmoebaNetOptions& options_;
  Output last_, before_;
};

/// A classifier on an image in the middle of the network.
/// Source  Szegedy et al. 2014, arXiv:1409.4842, section 5, in tensorflow/tpu's form and widths.
Sequence auxiliary_head(int64_t channels, int64_t size, int64_t classes) {
  constexpr int64_t kReduced = 51, kWide = 307;  // 0.4 of 128 and of 768
  constexpr Window kPool{.size_h = 5, .size_w = 5, .stride_h = 3, .stride_w = 3, .padding = Padding::valid};
  const int64_t left = (size - kPool.size_h) / kPool.stride_h + 1;
  return Sequence()
      .then("relu", ReLU())
      .then("pool", AveragePool2d(kPool))
      .then("reduce", Conv2d(channels, kReduced, {}))
      .then("reduce_norm", BatchNorm(kReduced))
      .then("reduce_relu", ReLU())
      .then("whole", Conv2d(kReduced, kWide, {.size_h = left, .size_w = left, .padding = Padding::valid}))
      .then("whole_norm", BatchNorm(kWide))
      .then("whole_relu", ReLU())
      .then("average", GlobalAveragePool())
      .then("classifier", Linear(kWide, classes));
}

int64_t halved(int64_t size, int times) {
  for (int i = 0; i < times; ++i) size = (size + 1) / 2;
  return size;
}

}  // namespace

Graph amoebanet(const AmoebaNetOptions& options) {
  check(options);
  constexpr Window kStem{.size_h = 3, .size_w = 3, .stride_h = 2, .stride_w = 2, .padding = Padding::valid};
  Graph graph;
  const Value image = graph.input("image", {options.image_size, options.image_size, options.channels});
  const Value label = graph.input("label", {}, DType::i32);
  const Value stem = graph.add(
      "stem", Sequence().then("conv", Conv2d(options.channels, kStemChannels, kStem)).then("norm", BatchNorm(kStemChannels)), image);
  CellChain cells(graph, options, stem);
  cells.add_reduction("stem_cell0", options.filters / 4);
  cells.add_reduction("stem_cell1", options.filters / 2);
  const int64_t first = options.layers / 3, second = 2 * options.layers / 3;
  int64_t filters = options.filters;
  Value auxiliary;
  for (int64_t i = 0; i < options.layers; ++i) {
    if (i == first || i == second) {
      filters *= 2;
      cells.add_reduction(i == first ? "reduction0" : "reduction1", filters);
    }
    cells.add_normal("cell" + std::to_string(i), filters);
    if (options.aux_head && i == second - 1) {
      const int64_t size = halved((options.image_size - kStem.size_h) / kStem.stride_h + 1, 3);
      require(size >= 5, "model.aux_head: needs images of at least 67 pixels, got model.image_size = ", options.image_size,
              "; use larger images or aux_head = false");
      auxiliary = graph.add("auxiliary_head", auxiliary_head(cells.channels(), size, options.classes), cells.output());
    }
  }
  const Value logits = graph.add("head",
                                 Sequence()
                                     .then("relu", ReLU())
                                     .then("average", GlobalAveragePool())
                                     .then("dropout", Dropout(options.dropout))
                                     .then("classifier", Linear(cells.channels(), options.classes)),
                                 cells.output());
  graph.output(logits);
  graph.loss(options.aux_head ? graph.add("loss", CrossEntropy(options.label_smoothing, kAuxiliaryWeight), {logits, label, auxiliary})
                              : graph.add("loss", CrossEntropy(options.label_smoothing), {logits, label}));
  return graph;
}

}  // namespace sluice::models
