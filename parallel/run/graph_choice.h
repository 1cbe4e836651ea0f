#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::parallel {

/// Whether the kernels of a training step are launched as CUDA graphs (pipeline.cuda_graphs).
enum class CudaGraphs { off, on, automatic };

/// Decides it step by step. The first step never uses graphs: in it libraries are loaded, algorithms chosen and memory blocks made.
/// `automatic` then takes some steps of each kind in turn and stays with the one whose median is lower. The choice changes times only.
/// Threads  one.
class GraphChoice {
 public:
  static constexpr int kWarmUp = 1, kInstantiations = 2, kTrials = 5;
  static constexpr int kStepsUntilMade = kWarmUp + kInstantiations + 2 * kTrials;

  /// `possible`: there are CUDA devices; else it is `off`.
  GraphChoice(CudaGraphs wanted, bool possible) : wanted_(possible ? wanted : CudaGraphs::off), possible_(possible) {}

  /// Whether the next step uses graphs.
  bool next() const;
  /// That step was done in `seconds`.
  void note(double seconds);

  bool is_possible() const { return possible_; }
  CudaGraphs wanted() const { return wanted_; }
  /// Nothing is left to measure.
  bool is_made() const { return wanted_ != CudaGraphs::automatic || steps_ >= kStepsUntilMade; }
  /// Median of the trial steps with graphs, or without; 0 where none was measured.
  double seconds(bool with_graphs) const;
  /// "off", "auto: on, 12.3 ms a step with graphs, 12.9 ms without".
  std::string text() const;

 private:
  bool is_trial() const { return wanted_ == CudaGraphs::automatic && steps_ >= kWarmUp + kInstantiations && !is_made(); }
  CudaGraphs wanted_;
  bool possible_;
  int64_t steps_ = 0;
  std::array<std::vector<double>, 2> trials_;  ///< seconds, without and with graphs
};

}  // namespace sluice::parallel
