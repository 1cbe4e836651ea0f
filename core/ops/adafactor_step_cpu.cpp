#include "core/cpu/cpu.h"
#include "core/ops/adafactor_rules.h"
#include "core/ops/optimizer_slots_cpu.h"

namespace sluice::kernels {

namespace {

/// The sum of value(i) for i below `count`: several sums side by side, which depend on nothing else.
template <class F>
double sum_of(int64_t count, const F& value) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int k = 0; k < kSums; ++k) sums[k] += value(i + k);
  for (int k = 0; i < count; ++i, ++k) sums[k] += value(i);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

double square(double x) { return x * x; }

template <class T>
class Stepped {
 public:
  Stepped(const OptimizerSlot& slot, const AdafactorStep& step, double gradient_factor, double* sums)
      : slot_(slot),
        matrix_(slot.parameter.shape()),
        factors_(step, slot.decay),
        factor_(static_cast<T>(gradient_factor)),
        gradient_(slot.gradient.data<T>()),
        parameter_(slot.parameter.data<T>()),
        sums_(sums) {}

  void run(Cpu& cpu) {
    if (matrix_.is_factored) {
      average_rows(cpu);
      average_columns(cpu);
      row_mean_ = std::max(sum_of(matrix_.rows, [&](int64_t i) { return static_cast<double>(row()[i]); }) / matrix_.rows,
                           static_cast<double>(rules::kAdafactorLeast<T>));
    } else {
      average_elements(cpu);
    }
    const double scale = scale_of_update(cpu);
    cpu.parallel_for(elements(), kAdafactorChunk, [&](int64_t begin, int64_t end) { apply(begin, end, scale); });
  }

 private:
  int64_t elements() const { return matrix_.rows * matrix_.columns; }
  T* row() const { return slot_.states[0].data<T>(); }
  /// By column: of one axis the averages themselves.
  T* column() const { return slot_.states.back().data<T>(); }
  T clipped(int64_t element) const { return gradient_[element] * factor_; }

  void average_rows(Cpu& cpu) {
    cpu.parallel_for(matrix_.rows, grain_for(matrix_.columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double squares = sum_of(matrix_.columns, [&](int64_t j) { return square(clipped(i * matrix_.columns + j)); });
        row()[i] = rules::averaged(row()[i], static_cast<T>(squares / matrix_.columns), factors_.taken);
      }
    });
  }

  void average_columns(Cpu& cpu) {
    constexpr int kTogether = 64;
    cpu.parallel_for(matrix_.columns, kTogether, [&](int64_t begin, int64_t end) {
      double squares[kTogether] = {};
      for (int64_t i = 0; i < matrix_.rows; ++i)
        for (int64_t j = begin; j < end; ++j) squares[j - begin] += square(clipped(i * matrix_.columns + j));
      for (int64_t j = begin; j < end; ++j)
        column()[j] = rules::averaged(column()[j], static_cast<T>(squares[j - begin] / matrix_.rows), factors_.taken);
    });
  }

  void average_elements(Cpu& cpu) {
    cpu.parallel_for(elements(), grain_for(1), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) column()[j] = rules::averaged(column()[j], clipped(j) * clipped(j), factors_.taken);
    });
  }

  /// Calls piece(first, count, update) for the parts of rows within [begin, end): update(i) is that of element first + i.
  template <class Piece>
  void each_piece(int64_t begin, int64_t end, const Piece& piece) const {
    for (int64_t first = begin, count = 0; first < end; first += count) {
      const int64_t at_row = first / matrix_.columns, at_column = first % matrix_.columns;
      count = std::min(end - first, matrix_.columns - at_column);
      const T of_row = matrix_.is_factored ? static_cast<T>(row()[at_row] / row_mean_) : T(1);
      const T* of_column = column() + at_column;
      piece(first, count, [&](int64_t i) { return rules::adafactor_update(clipped(first + i), of_row * of_column[i]); });
    }
  }

  double scale_of_update(Cpu& cpu) {
    const int64_t chunks = (elements() + kAdafactorChunk - 1) / kAdafactorChunk;
    double* const of_chunk = sums_ + 2;
    cpu.parallel_for(elements(), kAdafactorChunk, [&](int64_t begin, int64_t end) {
      double updates = 0, parameters = 0;
      each_piece(begin, end, [&](int64_t first, int64_t count, const auto& update) {
        updates += sum_of(count, [&](int64_t i) { return square(update(i)); });
        parameters += sum_of(count, [&](int64_t i) { return square(parameter_[first + i]); });
      });
      of_chunk[begin / kAdafactorChunk] = updates;
      of_chunk[chunks + begin / kAdafactorChunk] = parameters;
    });
    const auto total = [&](const double* from) { return sum_of(chunks, [&](int64_t i) { return from[i]; }); };
    return factors_.scale(total(of_chunk), total(of_chunk + chunks), static_cast<double>(elements()));
  }

  void apply(int64_t begin, int64_t end, double scale) {
    const T shrink = static_cast<T>(factors_.shrink), rate = static_cast<T>(scale);
    each_piece(begin, end, [&](int64_t first, int64_t count, const auto& update) {
      for (int64_t i = 0; i < count; ++i) parameter_[first + i] = shrink * parameter_[first + i] - rate * update(i);
    });
    write_working(slot_, begin, end);
  }

  const OptimizerSlot& slot_;
  const AdafactorMatrix matrix_;
  const rules::AdafactorFactors factors_;
  const T factor_;
  const T* const gradient_;
  T* const parameter_;
  double* const sums_;
  double row_mean_ = 1;
};

}  // namespace

void adafactor_step(Cpu& cpu, const OptimizerSlot& slot, const AdafactorStep& step, const GradientClip& clip,
                    const AdafactorScratch& scratch) {
  const double factor = gradient_factor(clip);
  if (std::isnan(factor)) return;
  on_master(slot.parameter.dtype(), [&]<class T>() { Stepped<T>(slot, step, factor, scratch.sums.data<double>()).run(cpu); });
}

}  // namespace sluice::kernels
