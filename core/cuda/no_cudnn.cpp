// Stands in for the cudnn*.cpp in builds without cuDNN's headers.
#include "core/cuda/cudnn.h"

namespace sluice::cudnn {

std::string unavailable_reason() { return "this build has no cuDNN; configure with -Dcudnn=enabled"; }
std::string version_text() { return ""; }
bool convolve(Cuda&, const Convolution&, const Operands&, const std::function<void()>&) { return false; }
bool attend(Cuda&, const Attention&, const AttentionOperands&, const std::function<void()>&) { return false; }

}  // namespace sluice::cudnn
