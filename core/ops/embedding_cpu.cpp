#include <cstring>

#include "core/cpu/cpu.h"
#include "core/ops/embedding.h"
#include "core/ops/indices_cpu.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

void embedding(Cpu& cpu, const Tensor& ids, const Tensor& table, const Tensor& y) {
  const int64_t row_bytes = table.dim(1) * static_cast<int64_t>(size_of(table.dtype()));
  const auto* from = static_cast<const char*>(table.data());
  auto* to = static_cast<char*>(y.data());
  on_index(ids.dtype(), "embedding", [&]<class Id>() {
    const Id* id = ids.data<Id>();
    require_below("embedding: needs ids", id, ids.elements(), table.dim(0), "check the vocabulary size");
    if (row_bytes == 0) return;
    cpu.parallel_for(ids.elements(), grain_for(table.dim(1)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) std::memcpy(to + p * row_bytes, from + id[p] * row_bytes, row_bytes);
    });
  });
}

void embedding_backward(Cpu& cpu, const Tensor& ids, const Tensor& dy, const Tensor&, const Tensor& sums) {
  constexpr int64_t kColumns = 256;  // each chunk of columns goes through all positions in order
  const int64_t columns = sums.dim(1), positions = ids.elements();
  const auto accumulate = [&]<class Id, class T>(const Id* id, const T* dy, compute_t<T>* sums) {
    cpu.parallel_for(columns, kColumns, [=](int64_t begin, int64_t end) {
      for (int64_t p = 0; p < positions; ++p) {
        compute_t<T>* row = sums + id[p] * columns + begin;
        const T* part = dy + p * columns + begin;
        for_lanes<T, false>(0, end - begin, [&](auto load, auto store) { store(row, load(row) + load(part)); });
      }
    });
  };
  on_index(ids.dtype(), "embedding", [&]<class Id>() {
    on_float(dy.dtype(), "embedding", [&]<class T>() { accumulate(ids.data<Id>(), dy.data<T>(), sums.data<compute_t<T>>()); });
  });
}

}  // namespace sluice::kernels
