#pragma once
#include <string>

#include "data/image_source.h"

namespace sluice::data {

/// An array of bytes as an IDX file holds it.
struct IdxArray {
  std::vector<int64_t> shape;
  std::string bytes;  ///< row-major
};

/// Reads an IDX file, plain or packed with gzip, of bytes (type 0x08) with 1 to 4 axes.
/// File    two zero bytes, type, number of axes; the axes, big-endian 32 bits each; the elements.
/// Errors  DataError, `name` (the file) first, with the byte where it matters: another kind of file, or one that is cut off, too long, or
///         larger than 4 GiB.
/// Source  LeCun, Cortes, Burges, "The MNIST database".
IdxArray parse_idx(const std::string& name, std::string bytes);

/// A folder of files as MNIST, Fashion-MNIST and KMNIST name them: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the
/// same with `t10k` for validation, which may be missing; `.gz` behind them or not, and a point instead of the second minus or not.
/// Images are [count, height, width] or [count, height, width, channels]. Class names: those given, else the lines of `classes.txt` in
/// the folder, else the numbers up to the largest training label.
/// Errors  DataError for a missing or bad file, counts or sizes that do not match, and a label without a class, with file and byte.
ImageSplits open_idx(const std::string& folder, std::vector<std::string> class_names = {});

}  // namespace sluice::data
