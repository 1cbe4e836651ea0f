#include "cli/exit_codes.h"

#include <algorithm>
#include <csignal>
#include <new>
#include <system_error>

#include "core/error.h"
#include "parallel/run/divergence.h"

namespace sluice::cli {

namespace {

template <class... Errors>
bool is_one_of(const std::exception& error) {
  return ((dynamic_cast<const Errors*>(&error) != nullptr) || ...);
}

ExitCode signal_row(int number, const char* name) { return {exit_code_of_signal(number), std::string("ended by ") + name, nullptr}; }

}  // namespace

const std::vector<ExitCode>& exit_codes() {
  // A system_error is a file that cannot be reached, output that cannot be written, or a thread that the system refuses.
  static const std::vector<ExitCode> table = {
      {0, "done", nullptr},
      {1, "an error inside Sluice", is_one_of<std::exception>},
      {2, "command line or config: the message names the key and the nearest valid one", is_one_of<UsageError>},
      {3, "bad data or checkpoint: the message names file and byte or tensor", is_one_of<DataError>},
      {4, "resources: memory, disk, threads, output that cannot be written; also plan when the plan does not fit",
       is_one_of<ResourceError, std::system_error, std::bad_alloc>},
      {5, "a device or a rank did not answer, or come back from an action, within pipeline.timeout", is_one_of<CommError>},
      {6, "the training diverged: a gradient or a weight is not finite", is_one_of<parallel::DivergenceError>},
      signal_row(SIGHUP, "SIGHUP"),
      signal_row(SIGINT, "SIGINT"),
      signal_row(SIGUSR1, "SIGUSR1"),
      signal_row(SIGTERM, "SIGTERM"),
      signal_row(SIGXCPU, "SIGXCPU"),
  };
  return table;
}

int exit_code_of(const std::exception& error) {
  const auto& table = exit_codes();
  const auto found = std::find_if(table.rbegin(), table.rend(), [&](const auto& row) { return row.is_of != nullptr && row.is_of(error); });
  return found->code;
}

int exit_code_of_signal(int number) { return 128 + number; }

}  // namespace sluice::cli
