#pragma once
#include <array>
#include <cstdint>

#include "layers/graph.h"

namespace sluice::models {

/// An image classifier of residual bottlenecks.
struct ResNetOptions {
  std::array<int64_t, 4> blocks = {3, 4, 6, 3};  ///< of each stage: ResNet-50; {3, 4, 23, 3} is ResNet-101
  int64_t filters = 64;                          ///< inner channels of the first stage's blocks; they double from stage to stage
  int64_t classes = 1000;
  int64_t image_size = 224;
  int64_t channels = 3;             ///< of an image
  bool squeeze_excitation = false;  ///< after each block's last convolution, with reduction 16
  double dropout = 0;               ///< before the classifier
  double label_smoothing = 0;
};

/// Graph   inputs "image" [size, size, channels] and "label" (i32 []); nodes "stem", then for block j of stage i "stage<i>_block<j>_reduce" (1x1),
///         "..._spatial" (3x3, with the stride: v1.5) and "..._expand" (1x1 to 4 times the inner channels, plus the block's input, which is
///         projected where its shape differs), then "head" (logits, the graph's output) and "loss". The gamma of a block's last BatchNorm
///         starts at 0, so that each block starts as its input.
///         The stem is a 7x7 convolution and a pool, which leave a quarter of the side; below 64 pixels it is a 3x3 convolution that leaves
///         all of it, as is usual for CIFAR.
/// Parameters  ResNet-50 25,557,032, ResNet-101 44,549,160, SE-ResNet-50 28,088,024 with 1000 classes.
/// Errors  UsageError for sizes out of range, naming the key.
/// Source  He, Zhang, Ren, Sun 2015, arXiv:1512.03385; the stride's place: Goyal et al. 2017, arXiv:1706.02677; SqueezeExcitation:
///         arXiv:1709.01507. Padding is `same` (core/ops/window.h): on even sides a window of stride 2 lies one pixel further than in torchvision.
layers::Graph resnet(const ResNetOptions& options);

}  // namespace sluice::models
