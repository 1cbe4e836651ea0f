#pragma once
#include <string>

#include "data/image_source.h"

namespace sluice::data {

/// How a record of a CIFAR binary file begins: CIFAR-10 with the label; CIFAR-100 with the coarse and the fine label.
enum class CifarLabels { ten, hundred_coarse, hundred_fine };

/// Appends a file's images and labels. After its labels a record has 3 planes (red, green, blue) of 32 x 32 bytes.
/// Errors  DataError, `name` (the file) first: an empty file, one that is not whole records, a label out of range (with its byte).
/// Source  Krizhevsky 2009, "Learning multiple layers of features from tiny images".
void parse_cifar(const std::string& name, std::string_view bytes, CifarLabels kind, std::vector<uint8_t>& pixels,
                 std::vector<uint8_t>& labels);

/// A folder of the binary version: CIFAR-10 (`data_batch_1.bin` and on, `test_batch.bin`, `batches.meta.txt`) or CIFAR-100 (`train.bin`,
/// `test.bin`, `fine_label_names.txt`, `coarse_label_names.txt`). The test file is for validation. Without the file of names classes are
/// called by their numbers. `coarse` takes the 20 superclasses of CIFAR-100.
/// Errors  DataError for a missing or bad file, a gap in the batches of CIFAR-10, and batches that do not all have as many images.
ImageSplits open_cifar(const std::string& folder, bool coarse = false);

}  // namespace sluice::data
