#pragma once
#include <cstdint>

#include "layers/graph.h"
#include "models/amoebanet_cell.h"

namespace sluice::models {

/// An image classifier of evolved cells.
struct AmoebaNetOptions {
  AmoebaNet genotype = AmoebaNet::d;
  int64_t layers = 18;    ///< normal cells, L; two reduction cells come between them, two before
  int64_t filters = 208;  ///< of the first third of the normal cells, D; a multiple of 4
  int64_t classes = 1000;
  int64_t image_size = 224;
  int64_t channels = 3;         ///< of an image
  bool aux_head = false;        ///< a second classifier at two thirds, of which training adds 0.4 of the loss
  double drop_path_keep = 1;    ///< probability of keeping a sample's path, reached at `drop_path_steps`
  int64_t drop_path_steps = 1;  ///< training steps over which it falls from 1
  double dropout = 0.5;         ///< before the classifier
  double label_smoothing = 0.1;
};

/// Graph   inputs "image" [size, size, channels] and "label" (i32 []); nodes "stem", "stem_cell0", "stem_cell1", "cell0", ..., with
///         "reduction0" and "reduction1" before cells L / 3 and 2 L / 3, then "head" (logits, the graph's output) and "loss". A cell reads the
///         two cells before it.
/// Parameters  D(18, 208) 81,140,766, D(18, 416) 317,548,353 and B(18, 512) 557,286,057 with 1001 classes.
/// Errors  UsageError for sizes out of range, naming the key.
/// Source  Real, Aggarwal, Huang, Le 2018, arXiv:1802.01548; the layout of tensorflow/tpu's amoeba_net: 32 channels in the stem, cells of D / 4
///         and D / 2 after it, and in D's normal cells the states 0, 3, 4, 6 as the output.
layers::Graph amoebanet(const AmoebaNetOptions& options);

}  // namespace sluice::models
