#include "core/cuda/cublas.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "core/cuda/algorithm_cache.h"
#include "core/cuda/cublas_call.h"
#include "core/cuda/cublas_tuning.h"
#include "core/cuda/launch.h"
#include "core/cuda/trial.h"

namespace sluice::cublas {

namespace {

cublasLtMatmulAlgo_t algorithm_of(const AlgorithmWords& words) {
  cublasLtMatmulAlgo_t algorithm;
  static_assert(sizeof algorithm == sizeof words);
  std::memcpy(&algorithm, &words, sizeof words);
  return algorithm;
}

AlgorithmWords words_of(const cublasLtMatmulAlgo_t& algorithm) {
  AlgorithmWords words;
  std::memcpy(&words, &algorithm, sizeof words);
  return words;
}

/// The process's choice for this kind of call on this model of GPU, made at the first one; nothing when the library has no algorithm.
std::optional<cublasLtMatmulAlgo_t> chosen_algorithm(Cuda& cuda, cublasLtHandle_t handle, const Call& call, const Kind& kind,
                                                     const Operands& on) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);  // also while it tunes: trials of two devices would disturb each other
  static AlgorithmCache cache(algorithm_cache_file(kProductsFile));
  const std::string key = text_of(cuda, kind);
  if (const auto words = cache.find(key))
    if (const auto algorithm = algorithm_of(*words); call.can_run(handle, algorithm)) return algorithm;
  constexpr int kCandidates = 16;
  const auto candidates = call.candidates(handle, kCandidates);
  if (candidates.empty()) return std::nullopt;
  if (wants_trials())
    if (const auto fastest = fastest_of(candidates, cuda, handle, call, on)) {
      cache.keep(key, words_of(*fastest));
      return fastest;
    }
  cache.remember(key, words_of(candidates.front()));
  return candidates.front();
}

/// What a device keeps: a handle, and the calls that it ran, ready to run again.
class Library {
 public:
  struct Ready {
    Call call;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
  };

  explicit Library(Cuda& cuda) {
    cuda.activate();
    cublas_try(cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~Library() { cublasLtDestroy(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  cublasLtHandle_t handle() const { return handle_; }

  Ready& ready(Cuda& cuda, const Kind& kind, const Operands& on) {
    const auto found = ready_.find(kind);
    if (found != ready_.end()) {
      found->second.call.set_epilogue(on);
      return found->second;
    }
    Ready made{Call(kind), std::nullopt};
    made.call.set_epilogue(on);
    made.algorithm = chosen_algorithm(cuda, handle_, made.call, kind, on);
    return ready_.emplace(kind, made).first->second;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  std::map<Kind, Ready> ready_;
};

/// Runs the product if the library has an algorithm for it.
bool run(Cuda& cuda, const Product& product, const Operands& on) {
  auto& library = cuda.state<Library>();
  const Kind kind = kind_of(cuda, product, on);
  const auto& [call, algorithm] = library.ready(cuda, kind, on);
  if (!algorithm) return false;
  const auto status = call.run(cuda, library.handle(), *algorithm, on);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(join("cublas: cublasLtMatmul failed: ", cublasLtGetStatusString(status), ", for ", text_of(cuda, kind)));
  after_launch(cuda, "cublasLtMatmul");
  return true;
}

/// The library has no f64 bias, and reads a bias in packs of 16 bytes wherever it lies (found by Marian, marian-nmt.github.io, prod.cpp).
bool has_epilogue(const Product& product, const Operands& on) {
  return product.dtype != DType::f64 && reinterpret_cast<uintptr_t>(on.bias) % kWidestAccess == 0;
}

/// c's rows = bias: the first one is copied, then what is there, twice as much each time.
void write_bias(Cuda& cuda, const Product& product, const Operands& on) {
  const size_t element = size_of(product.c_dtype), width = product.n * element, pitch = product.c_ld * element;
  for (int64_t matrix = 0; matrix < product.batch; ++matrix) {
    char* const rows = static_cast<char*>(on.c) + matrix * product.c_stride * element;
    CUDA_TRY(cudaMemcpyAsync(rows, on.bias, width, cudaMemcpyDeviceToDevice, cuda.stream()));
    for (int64_t done = 1; done < product.m; done *= 2)
      CUDA_TRY(cudaMemcpy2DAsync(rows + done * pitch, pitch, rows, pitch, width, std::min(done, product.m - done), cudaMemcpyDeviceToDevice,
                                 cuda.stream()));
  }
}

}  // namespace

void multiply(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c) {
  const Operands on{a, b, bias, c};
  if ((!product.has_bias || has_epilogue(product, on)) && run(cuda, product, on)) return;
  Product sum = product;
  if (product.has_bias) {
    write_bias(cuda, product, on);
    sum.has_bias = false;
    sum.beta = 1;
    if (run(cuda, sum, on)) return;
  }
  throw DeviceError(join("cublas: this version of cuBLASLt has no algorithm for ", text_of(cuda, kind_of(cuda, sum, on)),
                         "; install another one, or train in f32"));
}

bool multiply_gelu(Cuda& cuda, Product product, const void* a, const void* b, const void* bias, void* before, void* c) {
  product.has_bias = product.has_gelu = true;
  const Operands on{a, b, bias, c, before};
  const bool is_aligned = reinterpret_cast<uintptr_t>(before) % kWidestAccess == 0 &&
                          product.before_ld * static_cast<int64_t>(size_of(product.c_dtype)) % kWidestAccess == 0;
  const bool gains = product.dtype == DType::bf16 && product.c_dtype == DType::bf16 && gelu_epilogue_gains(cuda.compute_capability());
  return gains && is_aligned && has_epilogue(product, on) && run(cuda, product, on);
}

}  // namespace sluice::cublas
