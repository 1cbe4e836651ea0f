#include "core/cuda/choices.h"
#include "core/cuda/cublas.h"
#include "core/cuda/cudnn.h"
#include "core/error.h"

namespace sluice {

bool has_choices_for(const GpuDescription& gpu) { return Choices::of_process().has_any(cublas::product_prefix(gpu)); }

std::string gpu_libraries() {
  return join("cuBLAS ", cublas::version(), ", ", cudnn::unavailable_reason().empty() ? "cuDNN " + cudnn::version_text() : "no cuDNN");
}

}  // namespace sluice
