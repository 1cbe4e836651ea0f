#pragma once
#include <string>

#include "data/dataset.h"
#include "parallel/checkpoint.h"

namespace sluice::training {

/// Tells a data set from others: two hashes, of the names of its inputs, of how many samples it has and of some that it validates on; and of some
/// that it trains on, as they are prepared for training. They are spread evenly over both splits, so that what moves samples is seen, and what
/// changes all of them or many, but not a change of one that is not looked at.
/// Cost  loads 16 samples a split, one after another.
std::string data_hash_of(const data::Dataset& dataset);

/// The file of a checkpoint that has the hash of the training's data set.
inline constexpr const char* kDataHashFile = "data.hash";

/// What to say where a checkpoint was trained on other samples than those of this hash; empty where it was not, or where one of the two is not
/// known, as in checkpoints of older versions.
std::string told_of_other_data(const parallel::Checkpoint& checkpoint, const std::string& hash);

}  // namespace sluice::training
