#pragma once
#include <string>

namespace sluice::onednn {

/// Which library the program found when it started: "oneDNN 2.6.3"; empty in builds without it.
std::string version();

/// The instructions that it may choose kernels with, on this processor and under its environment variables (DNNL_MAX_CPU_ISA):
/// "avx512_core_bf16"; empty in builds without it.
std::string instruction_set();

/// Whether it takes bf16 apart by other instructions, as this processor has none for it: its products and convolutions then take a multiple
/// of the time of those in f32 (docs/performance.md), and are not used.
bool emulates_bf16();

}  // namespace sluice::onednn
