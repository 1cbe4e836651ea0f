#include "core/cuda/cudnn_agreement.h"

#include <cmath>

#include "core/cuda/try.h"

namespace sluice::cudnn {

namespace {

/// Calls f(offset of the first element) for all rows that only the last two axes span.
template <class F>
void each_matrix(const Result& result, const F& f) {
  for (int64_t i = 0; i < result.extents[0]; ++i)
    for (int64_t j = 0; j < result.extents[1]; ++j) f(i * result.strides[0] + j * result.strides[1]);
}

}  // namespace

void Result::poison(Cuda& cuda) const {
  constexpr int kNan = 0xff;
  const size_t size = size_of(dtype), width = size * static_cast<size_t>(extents[3]);
  each_matrix(*this, [&](int64_t offset) {
    void* const to = static_cast<char*>(data) + size * static_cast<size_t>(offset);
    if (extents[2] == 1)
      CUDA_TRY(cudaMemsetAsync(to, kNan, width, cuda.stream()));
    else
      CUDA_TRY(cudaMemset2DAsync(to, size * static_cast<size_t>(strides[2]), kNan, width, static_cast<size_t>(extents[2]), cuda.stream()));
  });
}

Agreement::Agreement(Cuda& cuda, const Result& result) : result_(result), expected_(numbers(cuda)) {
  for (const double number : expected_) {
    if (!std::isfinite(number)) {
      largest_ = 0;
      return;
    }
    largest_ = std::max(largest_, std::abs(number));
  }
}

std::string Agreement::deviation(Cuda& cuda) const {
  const auto found = numbers(cuda);
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected_[i]) <= result_.tolerance * largest_))  // also where it is no number
      return join("element ", i, " is ", found[i], " instead of ", expected_[i], ", with a largest one of ", largest_);
  return "";
}

std::vector<double> Agreement::numbers(Cuda& cuda) const {
  int64_t span = 1;
  for (size_t axis = 0; axis < result_.extents.size(); ++axis) span += (result_.extents[axis] - 1) * result_.strides[axis];
  return on_float(result_.dtype, "cudnn", [&]<class T>() {
    std::vector<T> stored(span);
    cuda.download(result_.data, stored.data(), stored.size() * sizeof(T));
    std::vector<double> all;
    each_matrix(result_, [&](int64_t offset) {
      for (int64_t row = 0; row < result_.extents[2]; ++row, offset += result_.strides[2])
        all.insert(all.end(), stored.begin() + offset, stored.begin() + offset + result_.extents[3]);
    });
    return all;
  });
}

}  // namespace sluice::cudnn
