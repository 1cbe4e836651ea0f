#pragma once
#include <cstdint>
#include <string>

namespace sluice {

/// Sizes of memory as one writes them: `.memory = 1_GiB`.
constexpr int64_t operator""_KiB(unsigned long long count) { return static_cast<int64_t>(count) << 10; }
constexpr int64_t operator""_MiB(unsigned long long count) { return static_cast<int64_t>(count) << 20; }
constexpr int64_t operator""_GiB(unsigned long long count) { return static_cast<int64_t>(count) << 30; }

/// 8589934592 -> "8.00 GiB"
std::string bytes_text(int64_t bytes);

}  // namespace sluice
