#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// By device: the most bytes that it holds while a counted program runs.
std::vector<int64_t> peak_bytes(const Program& program);

/// What a counted program sends between ranks that have so many consecutive devices each.
int64_t bytes_between_ranks(const Program& program, int devices_per_rank);

}  // namespace sluice::parallel
