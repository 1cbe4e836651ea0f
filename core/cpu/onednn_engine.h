#pragma once
// What the files that call oneDNN share. Included by these alone: no other header knows the library.
#include <omp.h>

#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"

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

inline void set(dnnl::memory& memory, const void* address) { memory.set_data_handle(const_cast<void*>(address)); }

/// A primitive with its memory handles; an empty one is left out. The library's own class wants them in a hash map at every run, whose
/// nodes it allocates.
class Bound {
 public:
  Bound() = default;
  Bound(const dnnl::primitive& primitive, std::initializer_list<std::pair<int, dnnl::memory>> arguments)
      : primitive_(primitive), stream_(engine()) {
    for (const auto& [argument, memory] : arguments)
      if (memory) arguments_.push_back({argument, memory.get()});
  }
  void run() const {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data()),
                            "could not execute a primitive");
  }

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl_exec_arg_t> arguments_;  ///< of handles that live as long as this
};

/// The calling thread's compiled primitive of a kind, made at the first use; null when this CPU has none (`compile` throws dnnl::error).
template <class Compiled, class Kind>
Compiled* find_compiled(const Kind& kind, Compiled (*compile)(const Kind&)) {
  constexpr size_t kKept = 512;  // a step uses some dozens of shapes; varying lengths must not pile up
  static thread_local std::map<Kind, std::optional<Compiled>> kept;
  static thread_local auto found = kept.end();  // an op asks some times for the same one
  if (found == kept.end() || found->first != kind) found = kept.find(kind);
  if (found == kept.end()) {
    if (kept.size() >= kKept) kept.clear();
    const OneThread guard;
    std::optional<Compiled> compiled;
    try {
      compiled = compile(kind);
    } catch (const dnnl::error& error) {  // remembered as missing, but where it might be there the next time, with other bits
      if (error.status == dnnl_out_of_memory)
        throw ResourceError("oneDNN: no memory is left to make a kernel; use more micro-batches or fewer intra-op threads");
    }
    found = kept.emplace(kind, std::move(compiled)).first;
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace sluice::onednn
