#include <algorithm>
#include <span>
#include <vector>

#include "core/cpu/cpu.h"
#include "core/ops/gradient_sum_cpu.h"
#include "core/ops/pooling.h"

namespace sluice::kernels {

namespace {

/// The taps of a window that take part for one row (or column) of the images that a kernel writes, in ascending order, and what they read.
struct Taps {
  int64_t first, count;
  int64_t source;  ///< row (or column) that the first of them reads

  /// `later`, so many columns on, are the same taps over the pixels that follow.
  bool go_on(const Taps& later, int64_t columns) const {
    return later.first == first && later.count == count && later.source == source + columns;
  }
};

/// The taps along one axis. Places of a window read the pixels under them: a step of one tap is a step of one pixel. Pixels read the places
/// that cover them: their taps lie a stride apart, and a later tap is an earlier place.
struct Axis {
  int64_t written, read, size, stride, before;
  bool is_gather;  ///< pixels read places

  int64_t tap_step() const { return is_gather ? stride : 1; }
  int64_t source_step() const { return is_gather ? -1 : 1; }
  Taps at(int64_t position) const {
    if (!is_gather) {
      const auto [begin, end] = covered_by(position, read, size, stride, before);
      return {begin - position * stride + before, std::max<int64_t>(0, end - begin), begin};
    }
    const auto [begin, end] = covering(position, read, size, stride, before);
    return {position + before - (end - 1) * stride, std::max<int64_t>(0, end - begin), end - 1};
  }
};

Axis rows_axis(const WindowPlan& p, bool is_gather) {
  return {is_gather ? p.in_h : p.out_h, is_gather ? p.out_h : p.in_h, p.window.size_h, p.window.stride_h, p.before_h, is_gather};
}
Axis columns_axis(const WindowPlan& p, bool is_gather) {
  return {is_gather ? p.in_w : p.out_w, is_gather ? p.out_w : p.in_w, p.window.size_w, p.window.stride_w, p.before_w, is_gather};
}

/// Neighbouring columns whose windows have the same taps.
struct Columns {
  int64_t first, count;
  Taps taps;
};

/// may_join(column): its windows and those of the column before it are alike beyond their taps.
template <class MayJoin>
std::vector<Columns> joined(const Axis& columns, const MayJoin& may_join) {
  std::vector<Columns> result;
  for (int64_t column = 0; column < columns.written; ++column) {
    const Taps taps = columns.at(column);
    if (!result.empty() && may_join(column) && result.back().taps.go_on(taps, result.back().count))
      ++result.back().count;
    else
      result.push_back({column, 1, taps});
  }
  return result;
}

/// One tap of a run: where it reads, and a number that goes with it.
template <class C>
struct Tap {
  int64_t offset;
  C value;
};

/// Neighbouring elements of a row that a kernel writes, whose windows have the same taps; and those taps, row by row.
template <class C>
struct Run {
  int64_t from, to, count;  ///< elements: where taps count from and where it is written, in the images; and how many
  std::span<const Tap<C>> taps;
};

/// The runs of some rows, in the first image: the others have the same.
template <class C>
class RowRuns {
 public:
  /// Forgets all rows. Runs refer to taps, of which there may be as many as this from now on.
  void begin(size_t most_taps) {
    runs_.clear();
    taps_.clear();
    ends_.clear();
    taps_.reserve(most_taps);
  }
  /// value(taps of the row, of the column, numbers among them) goes with a tap.
  template <class Value>
  void add(const Axis& rows, int64_t row, const Axis& columns, std::span<const Columns> groups, int64_t channels, const Value& value) {
    const Taps across = rows.at(row);
    for (const auto& [first, count, along] : groups) {
      const size_t before = taps_.size();
      for (int64_t r = 0; r < across.count; ++r)
        for (int64_t s = 0; s < along.count; ++s) {
          const int64_t from_row = across.source + r * rows.source_step(), from_column = along.source + s * columns.source_step();
          taps_.push_back({(from_row * columns.read + from_column) * channels, value(across, along, r, s)});
        }
      runs_.push_back({0, (row * columns.written + first) * channels, count * channels, std::span(taps_).subspan(before)});
    }
    ends_.push_back(runs_.size());
  }
  bool empty() const { return ends_.empty(); }
  /// Of the i-th row that was added.
  std::span<const Run<C>> row(size_t i) const {
    const size_t first = i == 0 ? 0 : ends_[i - 1];
    return std::span(runs_).subspan(first, ends_[i] - first);
  }

 private:
  std::vector<Run<C>> runs_;
  std::vector<Tap<C>> taps_;
  std::vector<size_t> ends_;  ///< in runs_
};

/// Calls body(run) for runs that cover the images written. Of small images each row's are made once for all images: with few channels they
/// would take as long as the arithmetic.
template <class C, class Value, class MayJoin, class Body>
void for_runs(Cpu& cpu, int64_t batch, const Axis& rows, const Axis& columns, int64_t channels, const Value& value, const MayJoin& may_join,
              const Body& body) {
  constexpr size_t kMostTaps = 32768;  // that are kept
  const std::vector<Columns> along = joined(columns, may_join);
  const size_t taps_of_row = along.size() * static_cast<size_t>(std::min(rows.size, rows.read) * std::min(columns.size, columns.read));
  const auto add = [&](RowRuns<C>& runs, int64_t row) { runs.add(rows, row, columns, along, channels, value); };
  RowRuns<C> kept;
  if (const size_t taps = taps_of_row * static_cast<size_t>(rows.written); taps <= kMostTaps) {
    kept.begin(taps);
    for (int64_t row = 0; row < rows.written; ++row) add(kept, row);
  }
  const int64_t work = std::max<int64_t>(1, rows.size * columns.size / (rows.is_gather ? rows.stride * columns.stride : 1));
  cpu.parallel_for(batch * rows.written, grain_for(columns.written * channels * work), [&](int64_t begin, int64_t end) {
    RowRuns<C> own;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t image = line / rows.written, row = line % rows.written;
      if (kept.empty()) {
        own.begin(taps_of_row);
        add(own, row);
      }
      for (Run<C> run : kept.empty() ? own.row(0) : kept.row(static_cast<size_t>(row))) {
        run.from = image * rows.read * columns.read * channels;
        run.to += image * rows.written * columns.written * channels;
        body(run);
      }
    }
  });
}

/// Registers that one reading of a run's taps serves.
constexpr int kRegisters = 4;

constexpr auto kAlways = [](int64_t) { return true; };

/// The number of a tap's place in the window, row by row.
template <class C>
auto place_in(const WindowPlan& plan, const Axis& rows, const Axis& columns) {
  return [&plan, rows, columns](const Taps& across, const Taps& along, int64_t r, int64_t s) {
    return static_cast<C>((across.first + r * rows.tap_step()) * plan.window.size_w + along.first + s * columns.tap_step());
  };
}

/// The gradient of a run's pixels: to = the sum over its taps, and what is there to add. add(load, tap, what the tap reads, sums) adds the
/// part of a tap.
template <class T, class Value, class Add>
void sum_taps(const Run<Value>& run, const T* added, T* to, const Add& add) {
  using V = Lanes<compute_t<T>>;
  write_gradient_blocks(run.to, run.to + run.count, added, to, [&](int64_t first, int64_t count, T* made) {
    for_lane_blocks<T, kRegisters>(0, count, [&](auto registers, auto load, auto store) {
      V sums[registers];
      for_registers<registers>([&](auto r) { sums[r] = V(0); });
      for (const auto& tap : run.taps) add(load, tap, run.from + first - run.to + tap.offset, sums);
      for_registers<registers>([&](auto r) { store(made + r * V::kCount, sums[r]); });
    });
  });
}

}  // namespace

void max_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y, const Tensor& place) {
  const Axis rows = rows_axis(plan, false), columns = columns_axis(plan, false);
  on_float(x.dtype(), "max_pool2d", [&]<class T>() {
    using C = compute_t<T>;
    using V = Lanes<C>;
    const T* images = x.data<T>();
    T* to = y.data<T>();
    uint8_t* place_to = place.defined() ? place.data<uint8_t>() : nullptr;
    for_runs<C>(cpu, plan.batch, rows, columns, x.dim(-1), place_in<C>(plan, rows, columns), kAlways, [&](const Run<C>& run) {
      const T* from = images + run.from;
      for_lane_blocks<T, kRegisters>(0, run.count, [&](auto registers, auto load, auto store) {
        V largest[registers], at[registers];
        for (int r = 0; r < registers; ++r) largest[r] = load(from + run.taps[0].offset + r * V::kCount), at[r] = V(run.taps[0].value);
        for (size_t i = 1; i < run.taps.size(); ++i) {
          const V place_of_tap(run.taps[i].value);
          for (int r = 0; r < registers; ++r) raise(largest[r], at[r], load(from + run.taps[i].offset + r * V::kCount), place_of_tap);
        }
        for (int r = 0; r < registers; ++r) store(to + run.to + r * V::kCount, largest[r]);
        if (place_to)
          for (int r = 0; r < registers; ++r) store(place_to + run.to + r * V::kCount, at[r]);
      });
    });
  });
}

void max_pool2d_backward(Cpu& cpu, const Tensor& dy, const Tensor& place, const WindowPlan& plan, const Tensor& sum, const Tensor& dx) {
  const Axis rows = rows_axis(plan, true), columns = columns_axis(plan, true);
  on_float(dy.dtype(), "max_pool2d_backward", [&]<class T>() {
    using C = compute_t<T>;
    using V = Lanes<C>;
    const T* from = dy.data<T>();
    const uint8_t* places = place.data<uint8_t>();
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    T* to = dx.data<T>();
    for_runs<uint8_t>(
        cpu, plan.batch, rows, columns, dy.dim(-1), place_in<uint8_t>(plan, rows, columns), kAlways, [&](const Run<uint8_t>& run) {
          sum_taps<T>(run, added, to, [&]<int registers>(const auto& load, const Tap<uint8_t>& tap, int64_t read, V(&sums)[registers]) {
            if constexpr (registers > 1)
              add_where_equal(load.address(places + read), tap.value, load.address(from + read), sums);
            else
              sums[0] = sums[0] + where_equal(load(places + read), V(tap.value), load(from + read), V(0));
          });
        });
  });
}

void average_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y) {
  on_float(x.dtype(), "average_pool2d", [&]<class T>() {
    using C = compute_t<T>;
    using V = Lanes<C>;
    const T* images = x.data<T>();
    T* to = y.data<T>();
    const auto one = [](const Taps&, const Taps&, int64_t, int64_t) { return C(1); };
    for_runs<C>(cpu, plan.batch, rows_axis(plan, false), columns_axis(plan, false), x.dim(-1), one, kAlways, [&](const Run<C>& run) {
      const T* from = images + run.from;
      const V share(C(1) / static_cast<C>(run.taps.size()));
      for_lane_blocks<T, kRegisters>(0, run.count, [&](auto registers, auto load, auto store) {
        V sums[registers];
        for_registers<registers>([&](auto r) { sums[r] = V(0); });
        for (const Tap<C>& tap : run.taps)
          for_registers<registers>([&](auto r) { sums[r] = sums[r] + load(from + tap.offset + r * V::kCount); });
        for_registers<registers>([&](auto r) { store(to + run.to + r * V::kCount, sums[r] * share); });
      });
    });
  });
}

void average_pool2d_backward(Cpu& cpu, const Tensor& dy, const WindowPlan& plan, const Tensor& sum, const Tensor& dx) {
  const Axis rows = rows_axis(plan, true), columns = columns_axis(plan, true);
  const Axis row_places = rows_axis(plan, false), column_places = columns_axis(plan, false);
  // Every place that covers the column lies inside the image along it.
  const auto is_whole = [&](int64_t column) {
    const Taps taps = columns.at(column);
    const auto covers_all = [&](int64_t at) { return column_places.at(at).count == plan.window.size_w; };
    return taps.count == 0 || (covers_all(taps.source) && covers_all(taps.source - taps.count + 1));
  };
  const auto may_join = [&](int64_t column) { return is_whole(column) && is_whole(column - 1); };
  on_float(dy.dtype(), "average_pool2d_backward", [&]<class T>() {
    using C = compute_t<T>;
    using V = Lanes<C>;
    const T* from = dy.data<T>();
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    T* to = dx.data<T>();
    const auto share = [&](const Taps& across, const Taps& along, int64_t r, int64_t s) {
      return C(1) / static_cast<C>(row_places.at(across.source - r).count * column_places.at(along.source - s).count);
    };
    for_runs<C>(cpu, plan.batch, rows, columns, dy.dim(-1), share, may_join, [&](const Run<C>& run) {
      sum_taps<T>(run, added, to, [&]<int registers>(const auto& load, const Tap<C>& tap, int64_t read, V(&sums)[registers]) {
        for_registers<registers>([&](auto r) { sums[r] = sums[r] + load(from + read + r * V::kCount) * V(tap.value); });
      });
    });
  });
}

}  // namespace sluice::kernels
