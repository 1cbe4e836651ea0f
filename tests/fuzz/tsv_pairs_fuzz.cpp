#include "core/error.h"
#include "data/parallel/pair_filter.h"
#include "data/parallel/text_pair_files.h"

/// Any text is pairs, of which the filter gives account, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace sluice::data;
  try {
    ParallelText text{"en", "de", parse_tsv_pairs("input", {reinterpret_cast<const char*>(bytes), size})};
    const auto read = static_cast<int64_t>(text.pairs.size());
    PairCounts counts;
    text = filter_pairs(std::move(text), {.most_characters = 200}, counts);
    const int64_t left_out =
        counts.malformed + counts.empty + counts.too_long + counts.ratio + counts.markup + counts.copies + counts.duplicates;
    if (counts.read != read || counts.kept + left_out != read || counts.kept != static_cast<int64_t>(text.pairs.size())) __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
