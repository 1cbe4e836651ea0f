#pragma once
#include <cstdio>

#include "parallel/plan/search_watch.h"

namespace sluice::cli {

/// Shows how far the search for a plan has come: a line that stays in its place on a terminal, elsewhere a line every ten seconds. The
/// first seconds pass in silence, as most searches are over then.
class SearchLine {
 public:
  explicit SearchLine(std::FILE* out);
  /// Takes the line away.
  ~SearchLine();
  SearchLine(const SearchLine&) = delete;
  SearchLine& operator=(const SearchLine&) = delete;

  void show(const parallel::SearchProgress& progress);

 private:
  std::FILE* out_;
  bool terminal_;
  double next_seconds_;
  size_t width_ = 0;  ///< of the line that stands on the terminal
};

}  // namespace sluice::cli
