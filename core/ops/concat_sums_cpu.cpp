#include "core/cpu/cpu.h"
#include "core/ops/concat_sums.h"
#include "core/ops/concat_sums_rules.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

void concat_sums(Cpu& cpu, const std::vector<Addends>& parts, bool relu, const Tensor& y) {
  const int64_t columns = y.dim(-1), rows = y.shape().elements_before(-1);
  on_float(y.dtype(), "concat_sums", [&]<class T>() {
    rules::on_relu_or_unchanged(relu, [&]<class Rule>() {
      cpu.parallel_for(rows, grain_for(columns), [&](int64_t begin, int64_t end) {
        T* to = y.data<T>();
        for (const auto& part : parts) {
          const int64_t width = part.a.dim(-1);
          const T *a = part.a.data<T>(), *b = part.b.defined() ? part.b.data<T>() : nullptr;
          for (int64_t row = begin; row < end; ++row)
            for_lanes<T>(0, width, [&](auto load, auto store) {
              const auto left = load(a + row * width);
              store(to + row * columns, Rule::value(b ? left + load(b + row * width) : left));
            });
          to += width;
        }
      });
    });
  });
}

void concat_sums_backward(Cpu& cpu, const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                          const std::vector<Tensor>& gradients) {
  const int64_t columns = dy.dim(-1), rows = dy.shape().elements_before(-1);
  on_float(dy.dtype(), "concat_sums_backward", [&]<class T>() {
    rules::on_relu_or_unchanged(y.defined(), [&]<class Rule>() {
      cpu.parallel_for(rows, grain_for(columns), [&](int64_t begin, int64_t end) {
        int64_t first = 0;
        for (size_t i = 0; i < widths.size(); first += widths[i++]) {
          if (!gradients[i].defined()) continue;
          const int64_t width = widths[i];
          const T *from = dy.data<T>() + first, *result = y.defined() ? y.data<T>() + first : from;
          T* to = gradients[i].data<T>();
          for (int64_t row = begin; row < end; ++row)
            for_lanes<T>(0, width, [&](auto load, auto store) {
              store(to + row * width, load(from + row * columns) * Rule::slope(load(result + row * columns)));
            });
        }
      });
    });
  });
}

}  // namespace sluice::kernels
