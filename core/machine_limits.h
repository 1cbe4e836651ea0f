#pragma once
#include <cstdint>
#include <string>

namespace sluice {

/// The f32 arithmetic that `threads` cores reach together in a loop of independent fused multiply-adds in registers.
/// The vectors are the widest that this build may use (cpu_march); a library that picks wider ones at run time can pass this limit.
/// Units   floating-point operations per second; a multiply-add is two.
/// Cost    about 0.1 s of all these cores, at every call.
/// Errors  UsageError when threads < 1.
double measured_peak_flops(int threads);

/// The same of products of bf16 that are summed in f32, as this build computes them: by the tiles of AMX where the processor has them, by the
/// dot products of AVX512_BF16 where oneDNN and the processor have those, else in f32.
/// Cost and errors as of measured_peak_flops.
double measured_bf16_peak_flops(int threads);

/// What one core reaches on a[i] = b[i] + s * c[i] over arrays far larger than its caches (the triad of STREAM).
/// Units   bytes per second, two reads and one write an element.
/// Cost    about 0.2 s and 192 MiB, at every call.
double measured_bandwidth();

/// Bytes of main memory that a new program could take without swapping and within the limits of its control groups (containers, batch
/// systems); all of it where the system does not say.
int64_t available_memory_bytes();

/// "Intel(R) Xeon(R) Platinum 8480+", or "cpu" where the system does not say.
std::string processor_name();

}  // namespace sluice
