#pragma once
#include "data/loader.h"
#include "data/tensor_dataset.h"
#include "layers/graph.h"

namespace sluice::training {

/// Two classes from four numbers, with a hidden layer of twelve units.
layers::Graph point_classifier();

/// Points of four axes, of which two decide the class.
data::TensorDataset::Inputs labelled_points(int64_t samples, uint64_t key);

/// 256 of key 1 to train with, 64 of key 2 for validation.
data::DatasetPtr point_dataset();

}  // namespace sluice::training
