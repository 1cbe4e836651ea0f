#pragma once
#include <string>
#include <vector>

#include "parallel/group/group.h"

/// What all ranks of a group call together, in one order. Each ends when the ranks that it hears have called it too, or one has failed.
namespace sluice::parallel {

/// Seconds of a wait for a rank's control message that may take as long as the rank works: when it no longer lives, or fails, the wait ends
/// all the same (Group).
inline constexpr double kNoEnd = 1e9;

/// On the root, what each rank gave, by rank; elsewhere empty. Errors  CommError naming a rank that gives nothing within `seconds`.
std::vector<std::string> gather(Group& group, std::string mine, double seconds = kNoEnd);
/// On every rank, what the root gave. Errors  CommError when the root gives nothing within `seconds`.
std::string broadcast(Group& group, std::string of_root, double seconds = kNoEnd);
/// Until all ranks are here. Errors  CommError naming one that does not come within `seconds`.
void barrier(Group& group, double seconds = kNoEnd);

/// By rank, on every rank: the name of its host.
std::vector<std::string> host_names(Group& group);

/// Seconds to add to a time of this rank's steady clock for that of the root: 0 on the root. Exact to about half the shortest of some round
/// trips. Source  Cristian 1989, "Probabilistic clock synchronization".
double clock_offset(Group& group);

}  // namespace sluice::parallel
