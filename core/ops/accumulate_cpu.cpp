#include "core/cpu/cpu.h"
#include "core/ops/accumulate.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

void accumulate(Cpu& cpu, const std::vector<Accumulation>& pairs) {
  for (const Accumulation& pair : pairs)
    on_float(pair.sum.dtype(), "accumulate", [&]<class T>() {
      T* sum = pair.sum.data<T>();
      const T* part = pair.part.data<T>();
      cpu.parallel_for(pair.sum.elements(), grain_for(1), [=](int64_t begin, int64_t end) {
        for_lanes<T>(begin, end, [&](auto load, auto store) { store(sum, load(sum) + load(part)); });
      });
    });
}

}  // namespace sluice::kernels
