#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace sluice::data {

/// Samples that lie in tensors: row i of every input is sample i.
///   TensorDataset numbers({{"image", images}, {"label", labels}}, {{"image", others}, {"label", their_labels}});
class TensorDataset : public Dataset {
 public:
  using Inputs = std::map<std::string, Tensor>;

  /// Shape   inputs by name [samples, ...], of any dtype, kept on the host. `validation`  the same inputs; empty: there is no such split.
  /// Errors  UsageError for inputs of different numbers of samples, or of another shape or dtype in the two splits.
  explicit TensorDataset(Inputs train, Inputs validation = {});

  std::vector<std::string> inputs() const override;
  int64_t size(Split split) const override;
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

 private:
  Inputs train_, validation_;
};

}  // namespace sluice::data
