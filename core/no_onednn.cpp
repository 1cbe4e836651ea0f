// Stands in for onednn_matmul.cpp in builds without oneDNN: no product is there, so callers take Eigen.
#include "core/onednn_matmul.h"

namespace sluice::onednn {

std::optional<int64_t> scratch_bytes(const Product&) { return std::nullopt; }
void multiply(const Product&, const void*, const void*, const void*, void*, void*) {
  throw DeviceError("matmul: this build has no oneDNN");
}
bool multiply_small(const Product&, const float*, const float*, float*) { return false; }

}  // namespace sluice::onednn
