#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// By device: the most bytes that it holds while a counted program runs.
std::vector<int64_t> peak_bytes(const Program& program);

/// By device: what a counted program sends to devices of other ranks, which have so many consecutive devices each.
std::vector<int64_t> sent_bytes(const Program& program, int devices_per_rank = 1);

/// Of all devices together.
int64_t bytes_between_ranks(const Program& program, int devices_per_rank);

}  // namespace sluice::parallel
