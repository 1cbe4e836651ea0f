#pragma once
#include "parallel/group/group.h"
#include "training/loop.h"

namespace sluice::training {

/// That the loops of all ranks do the same steps, evaluations and saves, over mini-batches of the same samples: ranks that load other samples
/// would train on inputs of one and targets of another without a word. Of what the samples contain `data_hash` (data_hash.h) is compared, where
/// neither rank's is empty.
/// Errors  UsageError on all ranks, naming the lowest one that differs from the root, in what, and the cure.
void require_equal_loops(parallel::Group& group, const LoopOptions& options, const data::Dataset& dataset, const std::string& data_hash,
                         bool saves);

}  // namespace sluice::training
