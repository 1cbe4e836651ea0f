#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace sluice::emulation {

/// From now on a bad access within a kernel ends the launch as a fault instead of the process; other faults go where they went before.
/// `describe` gets an address that cannot be accessed. Once a process; and once a thread that runs kernels, for its signal stack.
void catch_faults_of_kernels(std::function<std::string(uintptr_t)> describe);

}  // namespace sluice::emulation
