#pragma once
#include <string>

#include "data/dataset.h"
#include "parallel/checkpoint.h"

namespace sluice::training {

/// Tells a data set from others: a hash of the names of its inputs, of how many samples it has, and of all inputs of some of them, spread evenly
/// over both splits. So it sees what moves samples, and what changes all of them or many, but not a change of one that it does not look at.
/// Cost  loads 16 samples a split, one after another.
std::string data_hash_of(const data::Dataset& dataset);

/// The file of a checkpoint that has the hash of the training's data set.
inline constexpr const char* kDataHashFile = "data.hash";

/// That of the checkpoint; empty where it has none, as those of older versions.
std::string data_hash_of(const parallel::Checkpoint& checkpoint);

}  // namespace sluice::training
