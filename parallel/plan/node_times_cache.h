#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "parallel/plan/profile.h"

namespace sluice::parallel {

/// Measured times by a text that says all on which they depend, in a file: JSON
///   {"format": 2, "times": {"<hash of the text>": [all of NodeTimes]}}
/// A missing, damaged or foreign file counts as an empty one, and a file or folder that cannot be written as none.
/// Threads  one at a time. Other processes may use the file: it is replaced as a whole.
class NodeTimesCache {
 public:
  /// Reads the file. An empty path: no file.
  explicit NodeTimesCache(std::filesystem::path file);

  std::optional<NodeTimes> find(const std::string& text) const;
  void keep(const std::map<std::string, NodeTimes>& by_text);

 private:
  std::filesystem::path file_;
  std::map<std::string, NodeTimes> times_;  ///< by hash
};

}  // namespace sluice::parallel
