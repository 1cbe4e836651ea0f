#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/tuned.h"

namespace sluice {

/// One way to serve a kind of call: an algorithm of a library, or own kernels.
struct Candidate {
  std::string choice;                                    ///< what is kept of it
  std::function<double()> seconds;                       ///< times it; infinite where it cannot run
  std::function<bool()> is_right = [] { return true; };  ///< asked of the fastest first
};

/// A kind of call that needs an algorithm.
struct CallKind {
  std::string key;                                             ///< all that the choice depends on, in words
  std::function<bool(const std::string& choice)> can_run;      ///< of a choice that was made elsewhere
  std::function<std::string()> untried;                        ///< the choice where there is no other; empty: the kind cannot be served
  std::function<std::vector<Candidate>(int most)> candidates;  ///< those that the library expects to be the fastest first; none: no trials
  bool may_be_tried = true;                                    ///< not while kernels are captured
  bool is_kept = true;                                         ///< in the file
};

/// The algorithms that GPUs run: one for a kind of call, for the life of the process, chosen at the first call. What trials have found is
/// kept in a file: JSON
///   {"format": 1, "algorithms": {"NVIDIA H200, driver 13000, cuBLAS 130100: ...": {"candidates": 8, "choice": "4a00..."}}}
/// A missing, damaged or foreign file counts as an empty one, and a file or folder that cannot be written as none.
/// Threads  any. Other processes may use the file: it is replaced as a whole.
class Choices {
 public:
  /// Reads the file. An empty path: no file.
  explicit Choices(std::filesystem::path file);
  /// Those of this process, with the file gpu-algorithms.json in user_cache_folder().
  static Choices& of_process();

  /// The kind's choice: the settled one; else within begin_trials() and end_trials() what as thorough trials have left in the file, or the
  /// fastest candidate that is right; else, until adopt(), what the file has; else the untried one. A kind whose trials the end of the
  /// seconds has cut short has the fastest of those until then, and is not kept.
  std::string choose(const CallKind& kind);
  /// Changes when a kind may have got another choice.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }

  /// See TuningScope.
  void begin_trials(const TuningLimits& limits);
  void end_trials();
  GpuChoices all() const;
  void adopt(const GpuChoices& choices);
  bool has_any(std::string_view prefix) const;
  /// For tests: as a new process begins.
  void forget();

 private:
  struct Found {
    int candidates;  ///< up to which it was the fastest
    std::string choice;
  };
  using File = std::map<std::string, Found>;

  class Spending;
  static File read(const std::filesystem::path& file);
  static void write(const std::filesystem::path& file, const File& found);
  std::optional<std::string> known(const CallKind& kind);
  std::optional<std::string> fastest(const CallKind& kind);
  void keep(const std::string& key, const Found& found);

  std::filesystem::path path_;
  /// Held while it tries, too: trials of two devices would disturb each other. Recursive, as own kernels that are tried call products.
  mutable std::recursive_mutex mutex_;
  File file_;
  GpuChoices settled_;      ///< tried or adopted
  GpuChoices provisional_;  ///< untried, before the first adopt()
  bool is_adopted_ = false;
  int scopes_ = 0;
  TuningLimits limits_;  ///< of the scope: what is left of them
  int spendings_ = 0;
  std::chrono::steady_clock::time_point end_;  ///< of the seconds, while there is a spending
  std::atomic<uint64_t> version_{1};
};

/// What keys begin with: "NVIDIA H200, driver 13000, ".
std::string gpu_prefix(const GpuDescription& gpu);

}  // namespace sluice
