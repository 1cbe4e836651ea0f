#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// By device: the most bytes that it holds while a counted program runs.
std::vector<int64_t> peak_bytes(const Program& program);

}  // namespace sluice::parallel
