#include "cli/job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <variant>

#include "cli/exit_codes.h"
#include "cli/failure.h"
#include "cli/list_text.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "parallel/group/collectives.h"
#include "parallel/group/job.h"
#include "parallel/run/agreement.h"
#include "parallel/run/device_ranks.h"

namespace sluice::cli {

namespace {

/// In which a rank ends by itself when another one has failed; timeouts of ranks nest, this one is the last.
constexpr std::chrono::milliseconds kLeftAfterFailure(1500);
/// The launcher kills the others when a rank has ended: the root, which knows most, comes to say it first.
constexpr std::chrono::milliseconds kForTheRoot(1000);
/// In which all ranks of a finished job close it.
constexpr double kSecondsToClose = 60;

/// Launchers may bind a rank to one core, however many the host has.
void warn_of_binding() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) > 1 || cores == 1) return;
  warn(join("the launcher binds this rank to one of the host's ", cores, " cores: devices of several threads share it, and waiting ranks ",
            "compete; start with mpirun --bind-to none, or one core a rank and pipeline.threads = 1"));
}

void end_soon(const std::string& failure) {
  std::thread([failure] {
    std::this_thread::sleep_for(kLeftAfterFailure);
    tell_error(failure + "; this rank was in an action that did not end");
    end_process(exit_code_of(CommError(failure)));
  }).detach();
}

}  // namespace

Job::Job() : group_(parallel::join_job()) {
  if (!ranks()) return;
  set_rank(group_->rank());
  group_->on_failure(end_soon);
  set_watchdog(std::get<double>(option_named("pipeline.timeout").initial));
  hosts_ = parallel::host_names(*group_);
  if (is_root()) warn_of_binding();
}

std::vector<int> Job::devices_of_host(int devices) const {
  std::vector<int> here;
  for (int device = 0; device < devices; ++device)
    if (!ranks() || hosts_[parallel::DeviceRanks(devices, *group_).of(device)] == hosts_[group_->rank()]) here.push_back(device);
  return here;
}

void Job::set_watchdog(double seconds) const {
  constexpr double kLeast = 3;  // heartbeats come once a second
  group_->set_watchdog(std::max(kLeast, seconds));
}

std::string Job::text() const {
  if (!ranks()) return "";
  std::map<std::string, std::vector<int>> ranks;
  for (int rank = 0; rank < group_->size(); ++rank) ranks[hosts_[rank]].push_back(rank);
  std::string text = join(group_->size(), " ranks");
  for (const auto& [host, there] : ranks) text += join(text.ends_with("ranks") ? ": " : "; ", list_text(there, ", "), " on ", host);
  return text;
}

int Job::run(const std::function<int()>& command) {
  if (!ranks()) return command();
  try {
    const int code = command();
    group_->close(kSecondsToClose);
    return code;
  } catch (const std::exception& error) {
    const bool is_common = dynamic_cast<const parallel::ThrownByAll*>(&error) != nullptr;
    if (!is_common || is_root()) tell_error(explain(error));
    if (!is_common) {
      group_->abort(error.what());
      if (!is_root()) std::this_thread::sleep_for(kForTheRoot);
      end_process(exit_code_of(error));
    }
    group_->close(kSecondsToClose);
    return exit_code_of(error);
  }
}

}  // namespace sluice::cli
