#include "core/error.h"
#include "data/cifar.h"

/// Any bytes are images with labels in range, for each kind of label, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using sluice::data::CifarLabels;
  const std::string_view file(reinterpret_cast<const char*>(bytes), size);
  for (const auto kind : {CifarLabels::ten, CifarLabels::hundred_coarse, CifarLabels::hundred_fine}) try {
      std::vector<uint8_t> pixels, labels;
      sluice::data::parse_cifar("input", file, kind, pixels, labels);
      if (labels.empty() || pixels.size() != labels.size() * 3072) __builtin_trap();
    } catch (const sluice::DataError&) {
    }
  return 0;
}
