#pragma once
#include "core/tensor.h"

namespace sluice::layers {

/// How a parameter starts: a function of (seed, parameter name), whatever the partition. Of a module in a graph, Graph::initialize gives
/// another one.
struct Initializer {
  enum class Kind { zeros, ones, normal, uniform, truncated_normal, values } kind = Kind::zeros;
  double standard_deviation = 0;  ///< of normal, and of truncated_normal before it is cut
  double low = 0, high = 0;       ///< of uniform; where truncated_normal is cut, in standard deviations
  Tensor given{};                 ///< the values

  static Initializer zeros() { return {}; }
  static Initializer ones() { return {Kind::ones}; }
  static Initializer constant(double value) { return uniform(value, value); }
  static Initializer normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
  /// In [low, high); low alone where they are equal.
  static Initializer uniform(double low, double high) { return {Kind::uniform, 0, low, high}; }
  /// Normal numbers, drawn again while they are further from 0 than `cut` standard deviations, at least 0.5. What is left deviates less
  /// than `standard_deviation`: 0.88 of it for a cut of 2.
  static Initializer truncated_normal(double standard_deviation, double cut = 2) {
    return {Kind::truncated_normal, standard_deviation, -cut, cut};
  }
  /// The elements that a tensor of the parameter's shape has now, in any dtype and on any device with memory.
  static Initializer values(const Tensor& x) { return {Kind::values, 0, 0, 0, x.defined() ? x.clone() : x}; }

  /// Keeps the deviation of values and of gradients even: variance 2 gain^2 / (inputs + outputs). `inputs` are those that one output reads,
  /// `outputs` those that one input reaches: of a convolution channels times places of the window.
  /// Source  Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
  static Initializer xavier_normal(int64_t inputs, int64_t outputs, double gain = 1);
  static Initializer xavier_uniform(int64_t inputs, int64_t outputs, double gain = 1);
  /// Keeps the deviation of values even before a ReLU, gain sqrt(2): variance gain^2 / inputs.
  /// Source  He, Zhang, Ren, Sun 2015, arXiv:1502.01852.
  static Initializer kaiming_normal(int64_t inputs, double gain = kReluGain);
  static Initializer kaiming_uniform(int64_t inputs, double gain = kReluGain);
  static constexpr double kReluGain = 1.4142135623730951;
};

/// Throws unless a parameter of that shape can start so. Errors  UsageError that begins with `subject`.
void check(const Initializer& start, const Shape& shape, const std::string& subject);

/// Fills a contiguous tensor, the same numbers for a key on every device. Dtypes  f32, f64, bf16.
void initialize(const Tensor& x, const Initializer& start, uint64_t key);

}  // namespace sluice::layers
