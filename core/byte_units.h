#pragma once
#include <cstdint>

namespace sluice {

/// Sizes of memory as one writes them: `.memory = 1_GiB`.
constexpr int64_t operator""_KiB(unsigned long long count) { return static_cast<int64_t>(count) << 10; }
constexpr int64_t operator""_MiB(unsigned long long count) { return static_cast<int64_t>(count) << 20; }
constexpr int64_t operator""_GiB(unsigned long long count) { return static_cast<int64_t>(count) << 30; }

}  // namespace sluice
