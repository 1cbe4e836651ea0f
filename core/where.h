#pragma once
#include <string>

#include "core/error.h"

namespace sluice {

/// Where in a model the current thread works, for error messages. Set by whoever runs a graph; empty elsewhere.
struct Where {
  const char* node = nullptr;  ///< name of the graph's node; must outlive the scope
  int stage = -1;
  int micro_batch = -1;

  /// " (node 'block0', stage 1, micro-batch 2)", or "" when nothing is known.
  std::string text() const;
};

/// The current thread's place.
Where& where();

/// Sets the place for one scope and puts back the former one.
class WhereScope {
 public:
  explicit WhereScope(Where place) : former_(where()) { where() = place; }
  ~WhereScope() { where() = former_; }
  WhereScope(const WhereScope&) = delete;
  WhereScope& operator=(const WhereScope&) = delete;

 private:
  Where former_;
};

/// Throws what is being handled again with `place` behind its message, unless that has it already, as the kind of Error that it is; kinds
/// of other rooms pass as they are. What is no Error becomes a ResourceError when the system refused something, else an Error, and is
/// nested in it. Called within a catch.
[[noreturn]] void rethrow_at(const std::string& place);

/// Does the work, and adds the place to the message of an error in it.
template <class Work>
auto located(const Work& work) {
  try {
    return work();
  } catch (...) {
    rethrow_at(where().text());
  }
}

}  // namespace sluice
