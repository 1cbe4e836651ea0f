// Stands in for the files that call oneDNN in builds without it: nothing is there, so callers take what needs no library.
#include "core/cpu/onednn_convolution.h"
#include "core/cpu/onednn_library.h"
#include "core/cpu/onednn_matmul.h"

namespace sluice::onednn {

std::string version() { return ""; }
std::string instruction_set() { return ""; }
bool emulates_bf16() { return false; }

std::optional<int64_t> scratch_bytes(const Product&) { return std::nullopt; }
void multiply(const Product&, const void*, const void*, const void*, void*, void*) {
  throw DeviceError("matmul: this build has no oneDNN");
}
bool multiply_by_blas(const Product&, const float*, const float*, float*) { return false; }

std::optional<int64_t> scratch_bytes(const Convolution&) { return std::nullopt; }
void convolve(const Convolution&, const void*, const void*, void*, void*) { throw DeviceError("convolution: this build has no oneDNN"); }

}  // namespace sluice::onednn
