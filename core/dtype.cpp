#include "core/dtype.h"

#include <array>

namespace sluice {

namespace {

struct Description {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<Description, 6> kDescriptions{{{"f32", 4}, {"bf16", 2}, {"f64", 8}, {"i32", 4}, {"i64", 8}, {"u8", 1}}};

}  // namespace

size_t size_of(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)].bytes; }
std::string_view name_of(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)].name; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }
bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64; }

DType dtype_named(std::string_view name) {
  for (size_t i = 0; i < kDescriptions.size(); ++i)
    if (kDescriptions[i].name == name) return static_cast<DType>(i);
  throw UsageError(join("dtype: needs one of f32, bf16, f64, i32, i64, u8, got '", name, "'"));
}

}  // namespace sluice
