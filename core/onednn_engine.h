#pragma once
// What the files that call oneDNN share. Included by these alone: no other header knows the library.
#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <optional>

namespace sluice::onednn {

/// oneDNN takes as many OpenMP threads as the calling thread allows: exactly one here, because Sluice splits the work itself.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// A memory handle whose address is set at each run.
inline dnnl::memory handle(const dnnl::memory::desc& of) { return dnnl::memory(of, engine(), nullptr); }

/// The calling thread's compiled primitive of a kind, made at the first use; null when this CPU has none (`compile` throws dnnl::error).
template <class Compiled, class Kind>
Compiled* find_compiled(const Kind& kind, Compiled (*compile)(const Kind&)) {
  constexpr size_t kKept = 512;  // a step uses some dozens of shapes; varying lengths must not pile up
  static thread_local std::map<Kind, std::optional<Compiled>> kept;
  auto found = kept.find(kind);
  if (found == kept.end()) {
    if (kept.size() >= kKept) kept.clear();
    const OneThread guard;
    std::optional<Compiled> compiled;
    try {
      compiled = compile(kind);
    } catch (const dnnl::error&) {  // remembered as missing
    }
    found = kept.emplace(kind, std::move(compiled)).first;
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace sluice::onednn
