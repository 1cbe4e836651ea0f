#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// What every Group must do, as a program that all ranks run alike. It throws where the group does something else.
struct GroupCheck {
  std::string name;
  std::function<void(Group&)> run;
  int least_ranks = 2;
};

/// Those that leave the group as it was, so that they may follow each other.
std::vector<GroupCheck> harmless_checks();
/// Those after which the group has failed; each needs one of its own.
std::vector<GroupCheck> fatal_checks();

/// Messages about as long as the pieces in which a group sends long ones.
GroupCheck pieces_check(size_t piece_bytes);
/// One message of so many bytes around all ranks.
GroupCheck ring_check(size_t bytes);

/// What a wait in a check may take: longer than any machine is slow.
inline constexpr double kPatience = 60;

/// Throws unless `ok`.
template <class... Parts>
void expect(bool ok, const Parts&... parts) {
  require<Error>(ok, parts...);
}

}  // namespace sluice::parallel
