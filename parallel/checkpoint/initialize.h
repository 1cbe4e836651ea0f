#pragma once
#include <string>
#include <vector>

#include "parallel/checkpoint.h"

namespace sluice::parallel {

/// What a trainer took of a checkpoint of another training. Every name of the model is in one of the first three lists.
struct Initialization {
  struct OtherShape {
    std::string name;
    Shape model, checkpoint;
  };
  std::vector<std::string> loaded;
  std::vector<OtherShape> other_shapes;    ///< left at their initialisation
  std::vector<std::string> not_there;      ///< the checkpoint has none of that name: left at their initialisation
  std::vector<std::string> without_place;  ///< of the checkpoint: the model has none of that name
  bool averages = false;                   ///< taken from the checkpoint's moving averages, which are what its evaluation showed
};

/// Starts a new training from a trained model: every parameter and running statistic that the checkpoint has under the same name with the
/// same shape is taken, the rest stays as it is initialised, such as the classifier of another number of classes. The checkpoint's moving
/// averages are taken where it has them. Step and optimizer states stay those of a new training; its own averages start at its weights.
/// Errors  DataError when nothing fits.
Initialization initialize(const Checkpoint& checkpoint, Trainer& trainer);

/// That in words, a line for each thing left out.
std::string describe(const Initialization& initialization);

}  // namespace sluice::parallel
