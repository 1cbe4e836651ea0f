#include "core/cuda/cublas.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "core/cuda/choices.h"
#include "core/cuda/cublas_call.h"
#include "core/cuda/cublas_tuning.h"
#include "core/cuda/launch.h"
#include "core/cuda/trial.h"

namespace sluice::cublas {

namespace {

/// The process's choice for this kind of call on this model of GPU; empty when the library has no algorithm.
std::string choice_for(Cuda& cuda, cublasLtHandle_t handle, const Call& call, const Kind& kind, const Operands& on) {
  constexpr int kProposals = 16;  // of which some may not run
  return Choices::of_process().choose({.key = text_of(cuda, kind),
                                       .can_run =
                                           [&](const std::string& choice) {
                                             const auto algorithm = algorithm_of(choice);
                                             return algorithm && call.can_run(handle, *algorithm);
                                           },
                                       .untried =
                                           [&] {
                                             const auto proposals = call.candidates(handle, kProposals);
                                             return proposals.empty() ? std::string() : text_of(proposals.front());
                                           },
                                       .candidates = [&](int most) { return candidates_of(cuda, handle, call, on, most); },
                                       .may_be_tried = !is_captured(cuda)});
}

/// What a device keeps: a handle, and the calls that it ran, ready to run again.
class Library {
 public:
  struct Ready {
    explicit Ready(const Kind& kind) : call(kind) {}
    Call call;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
    uint64_t version = 0;  ///< of Choices, when the algorithm was asked for
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
    Ready& ready = ready_.try_emplace(kind, kind).first->second;
    ready.call.set_epilogue(on);
    if (const uint64_t version = Choices::of_process().version(); ready.version != version) {
      ready.algorithm = algorithm_of(choice_for(cuda, handle_, ready.call, kind, on));
      ready.version = version;
    }
    return ready;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  std::map<Kind, Ready> ready_;
};

/// Runs the product if the library has an algorithm for it.
bool run(Cuda& cuda, const Product& product, const Operands& on) {
  auto& library = cuda.state<Library>();
  const Kind kind = kind_of(cuda, product, on);
  const auto& ready = library.ready(cuda, kind, on);
  if (!ready.algorithm) return false;
  const auto status = ready.call.run(cuda, library.handle(), *ready.algorithm, on);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(join("cublas: cublasLtMatmul failed: ", cublasLtGetStatusString(status), ", for ", text_of(cuda, kind),
                           "; run again with CUBLASLT_LOG_LEVEL=5 to see its arguments"));
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

void multiply_part(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c) {
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
