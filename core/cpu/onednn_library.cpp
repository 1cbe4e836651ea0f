#include "core/cpu/onednn_library.h"

#include <dnnl.hpp>

#include "core/error.h"

namespace sluice::onednn {

std::string version() {
  const dnnl_version_t& library = *dnnl_version();
  return join("oneDNN ", library.major, '.', library.minor, '.', library.patch);
}

std::string instruction_set() {
  switch (const auto isa = dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:  // which ones there are differs between the versions
      return join("number ", static_cast<int>(isa));
  }
}

// Processors before these have no kernels for bf16 there, and those after them instructions.
bool emulates_bf16() {
  static const bool emulates = [] {
    const auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core || isa == dnnl::cpu_isa::avx512_core_vnni;
  }();
  return emulates;
}

}  // namespace sluice::onednn
