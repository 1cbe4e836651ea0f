#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "layers/module.h"

namespace sluice::models {

/// What an edge of a cell computes on a state. All but `none` and the pools begin with ReLU and end with BatchNorm; `conv_1x7_7x1` and
/// `conv_3x3` work on a quarter of the channels.
enum class CellOp { none, conv_1x1, conv_3x3, conv_1x7_7x1, separable_3x3, separable_5x5, max_pool_2x2, max_pool_3x3, average_pool_3x3 };

/// One edge: an op and the state that it reads. State 0 is the last cell's output, 1 the one before; 2 to 6 are the sums of this cell.
struct CellEdge {
  CellOp op;
  int state;
};

/// Edges 2i and 2i + 1 add up to state 2 + i; the states `outputs` side by side are the cell's output.
struct Genotype {
  std::array<CellEdge, 10> edges;
  std::vector<int> outputs;
};

/// The evolved networks, by their letters in the paper.
enum class AmoebaNet { b, d };

const Genotype& normal_genotype(AmoebaNet network);
const Genotype& reduction_genotype(AmoebaNet network);

/// One cell. Inputs {last output, the output before}: [B, H, W, C], and [B, H, W, C'] or twice as large; a reduction cell halves the image.
/// Where two cells read its output and both take it through ReLU, it may do so itself, once: their gradients are added up before that of
/// ReLU, and one image is kept for both.
class Cell : public layers::Composite {
 public:
  struct Options {
    const Genotype* genotype;
    int64_t last, before;  ///< channels of the inputs
    int64_t filters;       ///< of every state
    bool is_reduction = false;
    bool before_is_larger = false;  ///< the input before has twice the height and width of the last
    bool takes_before_as_it_is = false;
    bool last_is_rectified = false, before_is_rectified = false;  ///< the inputs went through ReLU
    bool rectifies = false;                                       ///< its output goes through ReLU
    double drop_path_keep = 1;
    int64_t drop_path_steps = 1;
    int64_t output_channels() const { return static_cast<int64_t>(genotype->outputs.size()) * filters; }
    /// Whether state 1 is the input before and not made of it by ReLU and a convolution.
    bool keeps_before() const { return takes_before_as_it_is || (!before_is_larger && before == filters); }
  };
  /// How a state is held for those that read it.
  enum class Held {
    as_addends,  ///< no edge reads it: the sum is made with the output
    rectified,   ///< all that read it do so through ReLU, which is taken as it is made
    as_it_is,    ///< some read it so; edges that read ReLU of it share that
  };

  /// The inputs' two, and the sum of every two edges.
  static constexpr size_t kStates = 2 + std::tuple_size_v<decltype(Genotype::edges)> / 2;

  explicit Cell(const Options& options);
  layers::InputCount input_count() const override { return {2, 2}; }
  Var forward(const layers::Call& call) const override;

 private:
  int add_edge(int number, const CellEdge& edge, int64_t in, int64_t stride);

  const Genotype* genotype_;
  int64_t filters_;
  bool rectifies_;
  std::array<Held, kStates> held_{};  ///< by state
  int last_ = -1, before_ = -1;       ///< children; -1 takes the input as it is
  std::array<int, 10> edges_{};       ///< children; -1 for none
  double drop_path_keep_;
  int64_t drop_path_steps_;
};

}  // namespace sluice::models
