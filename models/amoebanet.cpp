#include "models/amoebanet.h"

#include <utility>

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
constexpr const char* kLastReduction = "reduction1";  // the auxiliary head reads what it reads

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

struct NamedCell {
  std::string name;
  Cell::Options options;
};

/// What crosses from cell to cell.
struct CellOutput {
  int64_t channels;
  int halvings;  ///< since the stem
};

/// All cells, each of which reads the two outputs before it.
std::vector<NamedCell> cells_of(const AmoebaNetOptions& options) {
  std::vector<NamedCell> cells;
  CellOutput last{kStemChannels, 0}, before = last;
  const auto add = [&](std::string name, int64_t filters, bool is_reduction) {
    const Genotype& genotype = is_reduction ? reduction_genotype(options.genotype) : normal_genotype(options.genotype);
    cells.push_back({std::move(name),
                     {.genotype = &genotype,
                      .last = last.channels,
                      .before = before.channels,
                      .filters = filters,
                      .is_reduction = is_reduction,
                      .before_is_larger = before.halvings < last.halvings,
                      .takes_before_as_it_is = cells.empty(),  // of the stem there is nothing before
                      .drop_path_keep = options.drop_path_keep,
                      .drop_path_steps = options.drop_path_steps}});
    before = last;
    last = {cells.back().options.output_channels(), last.halvings + is_reduction};
  };
  int64_t filters = options.filters;
  add("stem_cell0", filters / 4, true);
  add("stem_cell1", filters / 2, true);
  const int64_t first = options.layers / 3, second = 2 * options.layers / 3;
  for (int64_t i = 0; i < options.layers; ++i) {
    if (i == first || i == second) {
      filters *= 2;
      add(i == first ? "reduction0" : kLastReduction, filters, true);
    }
    add("cell" + std::to_string(i), filters, false);
  }
  return cells;
}

/// Lets each cell that two others read take its output through ReLU, unless the second of them keeps what it reads. All other readers begin
/// with ReLU.
void rectify_outputs(std::vector<NamedCell>& cells) {
  for (size_t i = 0; i + 2 < cells.size(); ++i) {
    if (cells[i + 2].options.keeps_before()) continue;
    cells[i].options.rectifies = cells[i + 1].options.last_is_rectified = cells[i + 2].options.before_is_rectified = true;
  }
}

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
  std::vector<NamedCell> cells = cells_of(options);
  rectify_outputs(cells);
  Value last = stem, before = stem, auxiliary;
  int64_t channels = kStemChannels;
  for (const auto& [name, of_cell] : cells) {
    if (options.aux_head && name == kLastReduction) {
      const int64_t size = halved((options.image_size - kStem.size_h) / kStem.stride_h + 1, 3);
      require(size >= 5, "model.aux_head: needs images of at least 67 pixels, got model.image_size = ", options.image_size,
              "; use larger images or aux_head = false");
      auxiliary = graph.add("auxiliary_head", auxiliary_head(channels, size, options.classes), last);
    }
    before = std::exchange(last, graph.add(name, Cell(of_cell), {last, before}));
    channels = of_cell.output_channels();
  }
  const Value logits = graph.add("head",
                                 Sequence()
                                     .then("relu", ReLU())
                                     .then("average", GlobalAveragePool())
                                     .then("dropout", Dropout(options.dropout))
                                     .then("classifier", Linear(channels, options.classes)),
                                 last);
  graph.output(logits);
  graph.loss(options.aux_head ? graph.add("loss", CrossEntropy(options.label_smoothing, kAuxiliaryWeight), {logits, label, auxiliary})
                              : graph.add("loss", CrossEntropy(options.label_smoothing), {logits, label}));
  return graph;
}

}  // namespace sluice::models
