#include <algorithm>
#include <cmath>

#include "core/ops/concat.h"
#include "core/ops/running_statistics.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double kMomentum = 0.75;

double count_of(int64_t part) { return static_cast<double>(part % 3 + 1); }

/// Of the channels [begin, end).
RunningUpdate update_of(const std::vector<Var>& x, int64_t begin, int64_t end) {
  const auto own = [&](const Tensor& of) { return of.slice(-1, begin, end).clone(); };
  RunningUpdate update{own(x[0].value()), own(x[1].value()), {}, kMomentum};
  for (int64_t part = 0; part < x[2].dim(0); ++part) {
    const auto row = [&](const Var& of) { return own(of.value().slice(0, part, part + 1)).reshape(update.mean.shape()); };
    update.parts.push_back({row(x[2]), row(x[3]), static_cast<int64_t>(count_of(part))});
  }
  return update;
}

/// Of {running mean, running variance, means [parts, C], variances [parts, C]}: both running statistics [2 C]. Those of at most `most`
/// channels are one update of a list.
Var updated(const std::vector<Var>& x, int64_t most, double sum_of_squares) {
  const int64_t channels = x[0].elements();
  std::vector<RunningUpdate> updates;
  for (int64_t begin = 0; begin < channels; begin += most) updates.push_back(update_of(x, begin, std::min(channels, begin + most)));
  update_running_statistics(updates, full({}, sum_of_squares, DType::f64, x[0].value().device_ptr()));
  std::vector<Tensor> all;
  for (const auto& update : updates) all.push_back(update.mean);
  for (const auto& update : updates) all.push_back(update.variance);
  return Var(concat(all, 0));
}

Values unchanged(const std::vector<Tensor>& x) { return concat({x[0], x[1]}, 0).to_vector(); }

Values naive(const std::vector<Tensor>& x) {
  Values y = unchanged(x);
  const Values means = x[2].to_vector(), variances = x[3].to_vector();
  const int64_t channels = x[0].elements(), parts = x[2].dim(0);
  for (int64_t c = 0; c < channels; ++c) {
    double count = 0, sum = 0, squares = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const double n = count_of(part), mean = means[part * channels + c];
      count += n;
      sum += n * mean;
      squares += n * (variances[part * channels + c] + mean * mean);
    }
    const double mean = sum / count, variance = (squares - count * mean * mean) / (count - 1);
    y[c] = kMomentum * y[c] + (1 - kMomentum) * mean;
    y[channels + c] = kMomentum * y[channels + c] + (1 - kMomentum) * variance;
  }
  return y;
}

}  // namespace

OP_CASES(running_statistics) {
  const auto with = [&](std::string name, int64_t parts, int64_t channels, int64_t most, double norm) {
    add({.name = std::move(name),
         .inputs = {randn({channels}), uniform({channels}, 0.5, 2), randn({parts, channels}), uniform({parts, channels}, 0.5, 2)},
         .run = [=](const auto& x) { return updated(x, most, norm); },
         .expect = std::isfinite(norm) ? naive : unchanged,
         .gradient = false,
         .low_precision = false});
  };
  with("few_parts", 4, 7, 7, 1);
  with("many_parts", 300, 130, 130, 1);
  with("many_updates", 5, 300, 7, 1);
  with("many_updates_of_many_parts", 250, 140, 50, 1);
  with("norm_is_nan", 4, 7, 7, NAN);
  with("norm_is_infinite", 4, 7, 7, INFINITY);
}
