#pragma once
#include <string>

#include "core/error.h"
#include "core/no_elements.h"

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

/// Does the work, and adds the place to the message of an error in it.
template <class Work>
auto located(const Work& work) {
  const auto with_place = [](const Error& error) { return error.what() + where().text(); };
  try {
    return work();
  } catch (const NoElements& error) {
    throw NoElements(with_place(error));
  } catch (const UsageError& error) {
    throw UsageError(with_place(error));
  } catch (const DataError& error) {
    throw DataError(with_place(error));
  }
}

}  // namespace sluice
