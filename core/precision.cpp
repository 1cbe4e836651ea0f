#include "core/precision.h"

#include <array>

#include "core/ops/copy.h"

namespace sluice {

namespace {

constexpr std::array<std::string_view, 3> kNames{"f32", "tf32", "bf16"};

}  // namespace

std::string_view name_of(Precision precision) { return kNames[static_cast<size_t>(precision)]; }

std::ostream& operator<<(std::ostream& out, Precision precision) { return out << name_of(precision); }

Precision precision_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Precision>(i);
  throw UsageError(join("precision: needs one of f32, tf32, bf16, got '", name, "'"));
}

Tensor in_working_dtype(const Tensor& x, Precision precision) { return is_floating(x.dtype()) ? cast(x, working_dtype(precision)) : x; }

}  // namespace sluice
