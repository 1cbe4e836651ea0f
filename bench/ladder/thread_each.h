#pragma once
#include "core/cuda/launch.h"

namespace sluice::ladder {

/// One thread for each of `items`, in blocks of 256.
inline LaunchShape thread_each(int64_t items) { return {dim3(static_cast<unsigned>((items + 255) / 256)), dim3(256)}; }

}  // namespace sluice::ladder
