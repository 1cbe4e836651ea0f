#pragma once
#include <optional>

#include "layers/module.h"

namespace sluice::layers {

/// Rows of a table.
/// Shape   ids [B, T] i32 or i64 -> [B, T, width]; weight [vocabulary, width].
class Embedding : public Module {
 public:
  Embedding(int64_t vocabulary, int64_t width, double standard_deviation = 0.02);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t vocabulary_, width_;
  double standard_deviation_;
};

/// Adds a position's vector to every token; starts at Call::first_position.
/// Kinds   learned: a parameter [context, width]. sinusoidal: sin and cos of geometric wavelengths, a table (arXiv 1706.03762, 3.5).
/// Shape   x [B, T, width], T <= context -> the same.
class Positions : public Module {
 public:
  enum class Kind { learned, sinusoidal };
  Positions(Kind kind, int64_t context, int64_t width);
  std::vector<ParameterSpec> parameters() const override;
  std::vector<TableSpec> tables() const override;
  Var forward(const Call& call) const override;

 private:
  Kind kind_;
  int64_t context_, width_;
};

/// Token embedding, scaled, plus positions, plus dropout: the first node of a transformer.
class TokenEmbedding : public Composite {
 public:
  struct Options {
    int64_t vocabulary, width, context;
    std::optional<Positions::Kind> positions = Positions::Kind::learned;  ///< none: nothing is added, as with rotary ones
    double scale = 1;                                                     ///< multiplies the token's row
    double standard_deviation = 0.02;
    double dropout = 0;
  };
  explicit TokenEmbedding(const Options& options);
  Var forward(const Call& call) const override;

 private:
  int tokens_, positions_ = -1, dropout_;
  double scale_;
};

}  // namespace sluice::layers
