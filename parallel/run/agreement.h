#pragma once
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// Texts by name, which ranks have to have alike, in the order in which differences are told.
using Terms = std::vector<std::pair<std::string, std::string>>;

/// Runs `work` on every rank and calls tell(name, the rank's own text, the root's) for each term that is not as on the root, with an empty
/// text for one that is missing. What either throws all ranks throw, as together().
void compare_with_root(Group& group, const std::function<Terms()>& work,
                       const std::function<void(const std::string& name, const std::string& own, const std::string& of_root)>& tell);

}  // namespace sluice::parallel
