#pragma once

namespace sluice {

/// The f32 arithmetic that `threads` cores reach together in a loop of independent fused multiply-adds in registers.
/// The vectors are the widest that this build may use (cpu_march); a library that picks wider ones at run time can pass this limit.
/// Units   floating-point operations per second; a multiply-add is two.
/// Cost    about 0.1 s of all these cores, at every call.
/// Errors  UsageError when threads < 1.
double measured_peak_flops(int threads);

/// What one core reaches on a[i] = b[i] + s * c[i] over arrays far larger than its caches (the triad of STREAM).
/// Units   bytes per second, two reads and one write an element.
/// Cost    about 0.2 s and 192 MiB, at every call.
double measured_bandwidth();

}  // namespace sluice
