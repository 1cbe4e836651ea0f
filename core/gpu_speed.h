#pragma once
#include "core/cuda/cuda.h"
#include "core/device.h"
#include "core/precision.h"

namespace sluice {

/// What a GPU can reach by its clock, multiprocessors and memory: matrix products of bf16 and TF32 on tensor cores, of f32 on the others.
/// A product reaches some 80 % of it (docs/performance.md). Links are taken as NVLink's 450 GB/s a direction, 5 us.
/// Source  NVIDIA's white papers: operations a multiprocessor and clock by compute capability.
DeviceSpeed gpu_speed(const GpuDescription& gpu, Precision precision);

}  // namespace sluice
