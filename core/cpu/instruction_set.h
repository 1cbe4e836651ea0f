#pragma once
#include <string>

namespace sluice {

/// All of a processor that kernels are chosen by when they run, so that two processors with equal texts compute equal bits with one build:
/// its vector instructions (the C library picks its functions by them), AMX (products and attention in bf16), the sizes of its caches
/// (libraries cut products into blocks by them), and what oneDNN makes of it: "avx avx2 fma avx512f ..., caches 48 KiB 2048 KiB 107520 KiB,
/// oneDNN avx512_core_bf16". Sluice's other kernels are chosen by the compiler (cpu_march): they belong to the build.
/// Where the instructions cannot be asked for, the name of the processor stands for them.
const std::string& instruction_set();

}  // namespace sluice
