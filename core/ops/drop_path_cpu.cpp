#include "core/cpu/cpu.h"
#include "core/ops/drop_path.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

void drop_path(Cpu& cpu, const Tensor& x, const Tensor& residual, const SampleMask& mask, const Tensor& y) {
  if (x.elements() == 0) return;
  const int64_t sample_elements = x.elements() / x.dim(0), chunk_elements = std::min(sample_elements, grain_for(1));
  const int64_t chunks = (sample_elements + chunk_elements - 1) / chunk_elements;
  on_float(x.dtype(), "drop_path", [&]<class T>() {
    const T *from = x.data<T>(), *base = residual.defined() ? residual.data<T>() : nullptr;
    T* to = y.data<T>();
    cpu.parallel_for(x.dim(0) * chunks, grain_for(chunk_elements), [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        const int64_t sample = item / chunks, begin = sample * sample_elements + item % chunks * chunk_elements;
        const int64_t end = std::min(begin + chunk_elements, (sample + 1) * sample_elements);
        if (mask.keeps(sample))
          for_lanes<T>(begin, end, [&](auto load, auto store) {
            const auto scaled = load(from) * decltype(load(from))(mask.factor);
            store(to, base ? load(base) + scaled : scaled);
          });
        else if (base)
          std::copy(base + begin, base + end, to + begin);
        else
          std::fill(to + begin, to + end, T(0));
      }
    });
  });
}

}  // namespace sluice::kernels
