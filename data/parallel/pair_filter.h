#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "data/parallel/parallel_text.h"

namespace sluice::data {

struct PairFilterOptions {
  int64_t most_characters = 1000;  ///< of a side
  double most_ratio = 9;           ///< of the lengths in characters, the longer by the shorter
  bool keep_copies = false;        ///< keeps pairs whose target equals their source; training leaves them out, a test keeps them
};

/// What a filter did, pair by pair; of several reasons the first one counts, in the order of the fields.
struct PairCounts {
  int64_t read = 0;
  int64_t malformed = 0;   ///< a side is not well-formed UTF-8
  int64_t empty = 0;       ///< a side is empty or white space
  int64_t too_long = 0;    ///< a side has more characters than allowed
  int64_t ratio = 0;       ///< the lengths differ too much
  int64_t markup = 0;      ///< a side has HTML left in it
  int64_t copies = 0;      ///< the target equals the source
  int64_t duplicates = 0;  ///< an equal pair of this direction came before
  int64_t kept = 0;

  PairCounts& operator+=(const PairCounts& other);
  /// A line for the pairs kept, then one for each reason that left some out. Each ends with a line feed.
  std::string text() const;
};

/// Whether a text has HTML left in it: a tag of an element that HTML has, such as <b> or </p>, or an entity, such as &nbsp; or &#160;.
/// What only looks alike stays: "a < b", "<file>", "R&D", "&File".
bool has_markup(std::string_view text);

/// The pairs that are fit to learn from, in their order; adds to `counts`.
/// Errors  UsageError for options out of range.
/// Source  the rule of lengths: clean-corpus-n.perl of Moses, which has the ratio 9.
ParallelText filter_pairs(ParallelText text, const PairFilterOptions& options, PairCounts& counts);

}  // namespace sluice::data
