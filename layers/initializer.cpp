#include "layers/initializer.h"

#include <cmath>

#include "core/no_elements.h"
#include "core/ops/copy.h"
#include "core/random.h"

namespace sluice::layers {

namespace {

double deviation_of(const char* rule, double gain, int64_t connections) {
  require(connections > 0 && std::isfinite(gain) && gain >= 0, rule, ": needs connections > 0 and a finite gain >= 0, got ", connections,
          " and ", gain);
  return gain / std::sqrt(static_cast<double>(connections));
}

Initializer uniform_of(double deviation) { return Initializer::uniform(-std::sqrt(3) * deviation, std::sqrt(3) * deviation); }

double xavier(const char* rule, int64_t inputs, int64_t outputs, double gain) {
  require(inputs > 0 && outputs > 0, rule, ": needs inputs and outputs > 0, got ", inputs, " and ", outputs);
  return deviation_of(rule, std::sqrt(2) * gain, inputs + outputs);
}

}  // namespace

Initializer Initializer::xavier_normal(int64_t inputs, int64_t outputs, double gain) {
  return normal(xavier("xavier_normal", inputs, outputs, gain));
}

Initializer Initializer::xavier_uniform(int64_t inputs, int64_t outputs, double gain) {
  return uniform_of(xavier("xavier_uniform", inputs, outputs, gain));
}

Initializer Initializer::kaiming_normal(int64_t inputs, double gain) { return normal(deviation_of("kaiming_normal", gain, inputs)); }

Initializer Initializer::kaiming_uniform(int64_t inputs, double gain) { return uniform_of(deviation_of("kaiming_uniform", gain, inputs)); }

void check(const Initializer& start, const Shape& shape, const std::string& subject) {
  using Kind = Initializer::Kind;
  require(start.standard_deviation >= 0 && std::isfinite(start.standard_deviation), subject,
          " needs a finite standard deviation >= 0 to start with, got ", start.standard_deviation);
  require(std::isfinite(start.low) && std::isfinite(start.high) && start.low <= start.high, subject,
          " needs a finite range to start in, its low end first, got [", start.low, ", ", start.high, ")");
  require(start.kind != Kind::truncated_normal || start.high >= kLeastTruncation, subject, " needs a cut of at least ", kLeastTruncation,
          " standard deviations, got ", start.high);
  require(start.kind != Kind::values || start.given.defined(), subject, " needs values to start with, got an undefined tensor");
  require(start.kind != Kind::values || start.given.shape() == shape, subject, " needs values of its shape ", shape, " to start with, got ",
          start.given, "; reshape them");
  require<NoElements>(start.kind != Kind::values || start.given.device().kind() != DeviceKind::meta, subject,
                      " needs values in memory to start with, got ", start.given);
}

void initialize(const Tensor& x, const Initializer& start, uint64_t key) {
  switch (start.kind) {
    case Initializer::Kind::zeros:
      return fill(x, 0);
    case Initializer::Kind::ones:
      return fill(x, 1);
    case Initializer::Kind::normal:
      return fill_normal(x, 0, start.standard_deviation, key);
    case Initializer::Kind::uniform:
      return fill_uniform(x, start.low, start.high, key);
    case Initializer::Kind::truncated_normal:
      return fill_truncated_normal(x, 0, start.standard_deviation, start.high, key);
    case Initializer::Kind::values:
      break;
  }
  if (x.device().kind() == DeviceKind::meta) return fill(x, 0);  // which counts as many bytes
  copy(start.given, x);
}

}  // namespace sluice::layers
