#pragma once
#include <map>
#include <string>

namespace sluice {

struct GpuDescription;

/// By kind of call the algorithm that GPUs run for it, in the words of its library:
///   "NVIDIA H200, driver 13000, cuBLAS 130100: bf16 to bf16 [2048, 768, 768] nt ..." -> "4a00000000000000..."
/// The bits that GPUs compute depend on shapes, on their model, on the versions that the keys name, and on these choices, on nothing else.
using GpuChoices = std::map<std::string, std::string>;

/// How much is tried.
enum class Tuning {
  off,    ///< nothing
  quick,  ///< the library's first 8 proposals of each kind of call, 10 seconds in all
  full,   ///< its first 32, an hour in all
};

struct TuningLimits {
  double seconds = 0;  ///< of trials, in all
  int candidates = 0;  ///< of a kind of call
};
TuningLimits limits_of(Tuning tuning);

/// While one lives, the first call of a kind on a GPU may time algorithms and takes the fastest, which is kept in a file for later scopes
/// (Choices); calls outside of one try nothing, ever. Kinds that took an untried algorithm before the process's first adopt() are chosen
/// anew; what was tried or adopted stays.
/// Threads  any; while several live the larger limits hold.
class TuningScope {
 public:
  explicit TuningScope(const TuningLimits& limits);
  ~TuningScope();
  TuningScope(const TuningScope&) = delete;
  TuningScope& operator=(const TuningScope&) = delete;
};

/// Those of this process: adopted ones, and those of all kinds that its GPUs have run.
GpuChoices gpu_choices();

/// From now on these hold, before all others, and what else was chosen so far stays. Outside of a TuningScope further kinds take untried
/// algorithms, whatever the file has: so processes that adopt the same choices compute the same bits.
/// Threads  any, while no GPU computes.
void adopt(const GpuChoices& choices);

/// Whether there are choices for products of that model by this process's driver and cuBLAS.
bool has_choices_for(const GpuDescription& gpu);

/// What GPUs compute by: "cuBLAS 130100, cuDNN 9.19.0", "cuBLAS 130100, no cuDNN"; empty in builds without CUDA.
std::string gpu_libraries();

}  // namespace sluice
