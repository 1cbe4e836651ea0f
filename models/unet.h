#pragma once
#include <cstdint>

#include "layers/graph.h"

namespace sluice::models {

/// Gives each pixel of an image a class: an encoder that halves the image level by level, a decoder that doubles it again, and long skips
/// from each level of the one to that of the other.
struct UNetOptions {
  int64_t depth = 4;         ///< levels, each of which halves the image
  int64_t convolutions = 2;  ///< 3x3, each with BatchNorm and ReLU: of each level of the encoder, of the bottom, and of each of the decoder
  int64_t filters = 64;      ///< channels of the first level, even; they double from level to level
  int64_t classes = 2;       ///< of a pixel
  int64_t image_size = 192;
  int64_t channels = 3;  ///< of an image
  double dropout = 0;    ///< of the bottom's output
  double label_smoothing = 0;
};

/// Graph   inputs "image" [size, size, channels] and "mask" (i32 [size, size]: classes; -100 counts nothing); nodes "encoder<i>_conv<j>" and
///         "encoder<i>_pool" for levels i = 0, 1, ..., then "bottom_conv<j>", then for levels from the deepest to 0 "decoder<i>_up" (which
///         reads what is below and, as a value of the graph, the output of the encoder's level i) and "decoder<i>_conv<j>", then "segment"
///         (logits [size, size, classes], the graph's output) and "loss": cross-entropy, whose weight is the number of pixels.
///         Sides that are odd grow by one at the halving and lose it at the doubling.
/// Parameters  of weights with one class 232,687,328 at depth 5, 5 convolutions and 64 filters; 362,157,516 at 5, 6 and 72; 15,822,206,000
///         at 5, 48 and 160. BatchNorm adds two numbers a channel.
/// Errors  UsageError for sizes out of range, naming the key.
/// Source  Ronneberger, Fischer, Brox 2015, arXiv:1505.04597; the channels of torchgpipe's simplified U-Net (arXiv:2004.09910): nearest
///         upsampling, and a decoder level that ends with half of its encoder level's channels. Here with BatchNorm and ReLU.
layers::Graph unet(const UNetOptions& options);

}  // namespace sluice::models
