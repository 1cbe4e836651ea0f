#pragma once
#include <functional>
#include <string>
#include <type_traits>

#include "parallel/group/group.h"

/// Work at which a rank may fail alone, between steps: all ranks call it together, and throw alike.
namespace sluice::parallel {

/// That all ranks throw the error: they are at one place, and can save together what they have.
struct ThrownByAll {
  virtual ~ThrownByAll() = default;
};

/// Runs `work` on every rank; `group` is null for one process. When it throws on some, all ranks throw the error of the lowest of them, of
/// its kind and as ThrownByAll, naming the rank.
/// Errors  CommError when another rank fails in another place.
void together(Group* group, const std::function<void()>& work);

/// The same for work that says, in words, what this rank is about to run. A rank that does not come within `seconds` ends the job.
/// Errors  UsageError on all ranks when one says other than the root. CommError naming the rank that did not come, and what this one is
///         about to run.
void together_alike(Group* group, const std::function<std::string()>& work, double seconds);

/// Runs `work` on the root and returns what it gave on every rank. What it throws all ranks throw, as together().
std::string on_root(Group* group, const std::function<std::string()>& work);

/// The same for work that gives nothing.
template <class Work>
requires std::is_void_v<std::invoke_result_t<Work>>
void on_root(Group* group, const Work& work) {
  on_root(group, [&] {
    work();
    return std::string();
  });
}

}  // namespace sluice::parallel
