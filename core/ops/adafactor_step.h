#pragma once
#include "core/ops/optimizer_step.h"

namespace sluice {

/// The settings of a step of Adafactor.
struct AdafactorStep {
  double learning_rate;
  double decay;         ///< of the averages of squares: step^-decay of each comes from this step
  double least_scale;   ///< what the RMS of a parameter, which its rate is multiplied by, counts as at least
  double threshold;     ///< the largest RMS of an update before the rate; larger ones are scaled down to it
  double weight_decay;  ///< decoupled
  int64_t step;         ///< from 1
};

/// Adam's adaptive rates without its memory: of a matrix one average of squares a row and one a column in the place of one an element, and
/// no average of gradients. A parameter of several axes is the matrix [R, C] of its first axis by all others.
///   taken = step^-decay;  row = (1 - taken) row + taken (mean of g^2 over the row);  column likewise
///   square = row column / mean(row);  of one axis square = (1 - taken) square + taken g^2
///   u = g / sqrt(square);  u /= max(1, RMS(u) / threshold)
///   parameter = (1 - learning_rate weight_decay) parameter - min(learning_rate, 1 / sqrt(step)) max(least_scale, RMS(parameter)) u
/// where mean(row) counts as e at least and square as e^2, with e = 2^-23 for f32 and 2^-52 for f64.
/// Shape   of each slot's states: adafactor_state_shapes(); all else as of the steps in optimizer_step.h. A slot is a whole parameter.
/// Dtypes  f32, f64; sums in f64.
/// Errors  UsageError for other shapes or dtypes, for a part of a parameter that begins behind its first element, and on GPUs for more than
///         2^30 rows or columns.
/// Cost    three passes over the gradient and two over the parameter. Scratch on a GPU: 64 numbers a column at most.
/// Source  Shazeer & Stern 2018, arXiv:1804.04235; as torch.optim.Adafactor, which factors the last two axes of what has more.
void adafactor_step(const std::vector<OptimizerSlot>& slots, const AdafactorStep& step, const GradientClip& clip = {});

/// {[R], [C]} of a parameter of several axes, else {its own shape}.
std::vector<Shape> adafactor_state_shapes(const Shape& parameter);

namespace kernels {

/// A parameter as the matrix that is factored; of one axis one row, which is not.
struct AdafactorMatrix {
  int64_t rows, columns;
  bool is_factored;
  explicit AdafactorMatrix(const Shape& parameter);
};

/// Elements that are summed up together: all else about the sums is a function of the shape.
inline constexpr int64_t kAdafactorChunk = 8192;
/// Parts in which a GPU sums up columns.
int64_t adafactor_row_parts(int64_t rows);

struct AdafactorScratch {
  Tensor sums;  ///< f64 [2 + 2 chunks]: the mean of the rows' averages, what u is multiplied by, and sums of u^2 and parameter^2 by chunk
  Tensor columns;  ///< [parts, C] in the arithmetic's dtype, on a GPU and where the parameter is factored; else undefined
};
void adafactor_step(Cpu& cpu, const OptimizerSlot& slot, const AdafactorStep& step, const GradientClip& clip,
                    const AdafactorScratch& scratch);
void adafactor_step(Cuda& cuda, const OptimizerSlot& slot, const AdafactorStep& step, const GradientClip& clip,
                    const AdafactorScratch& scratch);

}  // namespace kernels

}  // namespace sluice
