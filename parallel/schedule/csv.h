#pragma once
#include <string>
#include <string_view>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// One row a device, one cell an action, in the notation of PyTorch's pipelining: stage, action (F, B, I or W), micro-batch, as in
/// "0F3,0B0,1I2,1W2". Read again, it gives the same schedule.
std::string schedule_csv(const Schedule& schedule);

/// Reads such a table: row d is device d and its stages are those that it names. Empty cells, blanks, a byte order mark and CRLF are
/// allowed; a table that has F alone is a schedule of evaluation. The schedule is named after `file_name`.
/// Errors  UsageError that names file, row, cell and cure: a cell that is no action, numbers that are negative or too large, a stage on two
///         rows, a stage or micro-batch that is left out or given twice, gradients that accumulate in another order than 0, 1, 2, ...
Schedule parse_schedule_csv(std::string_view text, std::string_view file_name);

}  // namespace sluice::parallel
