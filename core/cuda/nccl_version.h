#pragma once
#include <string>

namespace sluice::nccl {

/// The oldest version that is used, as ncclGetVersion writes 2.28.9: that release fixes a hang between NCCL's main and proxy threads, and
/// before 2.28.3 interfaces of the network that are not running are tried.
/// Source  NVIDIA NCCL release notes 2.28.3, 2.28.9.
inline constexpr int kOldestVersion = 22809;

/// "2.28.9" of 22809.
std::string version_text(int version);
/// Why a library of that version is not used: what was found, what is needed and the cure; empty when it is.
std::string version_fault(int version);
/// What is wrong with a version that is used all the same, and the cure; empty when nothing is known.
std::string version_warning(int version);

}  // namespace sluice::nccl
