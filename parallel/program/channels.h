#pragma once

#include "parallel/program/program.h"

namespace sluice::parallel {

/// Gives each transfer between devices its RecvPost and its SendWait, in a program that has Send and Recv alone. What a Send freed its
/// SendWait frees.
/// Where they stand: take the order in which the whole group would run the program with unit costs (B = 2, all else 1, shared by a device's
/// stages) and transfers that take no time. The sends of a channel are posted in their order, each by what its receiver does when it is sent,
/// or earlier. So before each action of that order comes all that it waits for, and before each transfer those of its channel that were
/// sent earlier.
/// Transfers of the end of the step are posted when they are needed, the parts of the norm all at once: nothing is left to overlap with,
/// and tied gradients are large.
/// A program that waits for ever gets its actions somewhere, for `verify` to refuse it.
Program with_channel_actions(Program program, const TransferWindow& window);

}  // namespace sluice::parallel
