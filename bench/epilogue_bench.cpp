// What a GPT's backward would gain on a GPU by epilogues of cuBLASLt that Sluice does not use: the gradient of a bias within the product of
// the weight's gradient (BGRADB), and GELU's gradient with its bias's within the product of its output's (DGELU_BGRAD).
//   epilogue_bench [--device cuda:0] [--json]      --json: one object a line
// A row has the time of Sluice's product and pass, that of the fastest of the library's proposals, how far the gradients of the bias are
// apart, and whether five runs gave the same bits.
#include <cublasLt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/gpu_timing.h"
#include "bench/relative_difference.h"
#include "bench/run_program.h"
#include "core/cuda/cublas_call.h"
#include "core/cuda/cuda.h"
#include "core/ops/activation.h"
#include "core/ops/linear.h"
#include "core/ops/linear_gelu.h"
#include "core/ops/matmul.h"

namespace sluice::bench {
namespace {

constexpr int kRepeats = 9, kProposals = 16;

/// A layer y [rows, out] = x [rows, in] W^T + b.
struct Layer {
  const char* name;
  int64_t rows, in, out;
};
constexpr Layer kLayers[] = {{"GPT-2 124M, q, k and v", 32768, 768, 2304},
                             {"GPT-2 124M, after attention", 32768, 768, 768},
                             {"GPT-2 124M, last of feed-forward", 32768, 3072, 768},
                             {"GPT-2 1558M, q, k and v", 16384, 1600, 4800},
                             {"GPT-2 1558M, last of feed-forward", 16384, 6400, 1600}};

struct Row {
  std::string name;
  double apart_seconds, fused_seconds, bias_difference;  ///< no fused ones where the library has no such product: then infinite
  bool has_same_bits;
};

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  cublas::cublas_try(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

/// A product c = op(a) op(b) of row-major matrices in bf16 with an epilogue that makes a bias's gradient; the library sees it as c' =
/// op(b)' op(a)'.
class Product {
 public:
  Product(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, cublasLtEpilogue_t epilogue, const Tensor& dbias,
          const Tensor& before)
      : cuda_(cuda), operands_{a, b, c, dbias, before}, a_(layout_of(a)), b_(layout_of(b)), c_(layout_of(c)) {
    cublas::cublas_try(cublasLtCreate(&handle_), "cublasLtCreate");
    cublas::cublas_try(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
    set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.data());
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dbias.dtype() == DType::f32 ? CUDA_R_32F : CUDA_R_16BF);
    if (!before.defined()) return;
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before.data());
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, before.stride(0));
  }
  ~Product() { cublasLtDestroy(handle_); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Of the fastest proposal, which run() then takes; infinite where there is none.
  double choose(const Device& device) {
    double best = INFINITY;
    for (const auto& algorithm : proposals()) {
      bool runs = true;
      const double seconds = gpu_seconds(
          device, kRepeats, [] {}, [&] { runs = runs && run(algorithm); });
      if (runs && seconds < best) best = seconds, chosen_ = algorithm;
    }
    return best;
  }
  void run() {
    if (!run(chosen_))
      throw DeviceError("a product that ran while it was timed fails; run again with CUBLASLT_LOG_LEVEL=5 to see its arguments");
  }

 private:
  static cublas::Layout layout_of(const Tensor& x) { return {x.dtype(), x.dim(0), x.dim(1), x.stride(0), 1, 0}; }

  std::vector<cublasLtMatmulAlgo_t> proposals() const {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublas::cublas_try(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const uint64_t bytes = Cuda::kWorkspaceBytes;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> found;
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &b_.opaque, &a_.opaque, &c_.opaque, &c_.opaque, &preference, kProposals,
                                   found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
    return algorithms;
  }
  bool run(const cublasLtMatmulAlgo_t& algorithm) {
    const float one = 1, none = 0;
    const auto& [a, b, c, dbias, before] = operands_;
    void* const to = const_cast<void*>(c.data());
    return cublasLtMatmul(handle_, &operation_, &one, b.data(), &b_.opaque, a.data(), &a_.opaque, &none, to, &c_.opaque, to, &c_.opaque,
                          &algorithm, cuda_.workspace(), Cuda::kWorkspaceBytes, cuda_.stream()) == CUBLAS_STATUS_SUCCESS;
  }

  Cuda& cuda_;
  std::array<Tensor, 5> operands_;
  cublas::Layout a_, b_, c_;
  mutable cublasLtMatmulDescOpaque_t operation_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulAlgo_t chosen_{};
};

/// `bias` is what Sluice makes of the same operands.
Row measured(const std::string& name, Device& device, double apart_seconds, Product& fused, const Tensor& dbias, const Tensor& bias) {
  Row row{name, apart_seconds, fused.choose(device), NAN, false};
  if (!std::isfinite(row.fused_seconds)) return row;
  fused.run();
  const std::vector<double> first = dbias.to_vector();
  row.bias_difference = relative_difference({dbias}, {bias});
  row.has_same_bits = true;
  for (int i = 0; i < 4; ++i) {
    fused.run();
    row.has_same_bits = row.has_same_bits && dbias.to_vector() == first;
  }
  return row;
}

Row of_bias(const Layer& layer, const DevicePtr& device) {
  const Tensor x = noise({layer.rows, layer.in}, DType::bf16, device), dy = noise({layer.rows, layer.out}, DType::bf16, device);
  const Tensor dw = empty({layer.out, layer.in}, DType::f32, device), dbias = empty({layer.out}, DType::f32, device);
  const double apart = gpu_seconds(
      *device, kRepeats, [] {},
      [&] {
        matmul_into(dy, x, dw, true, false, 0);
        sum_rows(dy);
      });
  Product fused(device->cuda(), dy, x, dw, true, CUBLASLT_EPILOGUE_BGRADB, dbias, {});
  return measured(join(layer.name, ": weight and bias"), *device, apart, fused, dbias, sum_rows(dy));
}

/// dy of the layer behind a GELU whose bias comes along.
Row of_gelu(const Layer& layer, const DevicePtr& device, DType bias_dtype) {
  const Tensor dy = noise({layer.rows, layer.out}, DType::bf16, device), w = noise({layer.out, layer.in}, DType::bf16, device);
  const Tensor before = noise({layer.rows, layer.in}, DType::bf16, device), dx = empty_like(before);
  const Tensor dbias = empty({layer.in}, bias_dtype, device);
  const auto gradients = [&] {
    matmul_into(dy, w, dx, false, false, 0);
    return bias_activation_backward(Unary::GeluTanh, before, {}, dx, true, true).second;
  };
  const double apart = gpu_seconds(
      *device, kRepeats, [] {}, gradients);
  const Tensor bias = gradients();
  Product fused(device->cuda(), dy, w, dx, false, CUBLASLT_EPILOGUE_DGELU_BGRAD, dbias, before);
  return measured(join(layer.name, ": input, GELU and its bias in ", name_of(bias_dtype)), *device, apart, fused, dbias, bias);
}

void print(const Row& row, bool json) {
  const bool is_there = std::isfinite(row.fused_seconds);
  if (json)
    std::printf("{\"row\": \"%s\", \"apart_us\": %.1f, \"fused_us\": %.1f, \"bias_difference\": %.3g, \"same_bits\": %s}\n",
                row.name.c_str(), 1e6 * row.apart_seconds, is_there ? 1e6 * row.fused_seconds : -1, is_there ? row.bias_difference : -1,
                row.has_same_bits ? "true" : "false");
  else if (is_there)
    std::printf("%-64s apart %8.1f us  fused %8.1f us  biases apart by %.2g%s\n", row.name.c_str(), 1e6 * row.apart_seconds,
                1e6 * row.fused_seconds, row.bias_difference, row.has_same_bits ? "" : ", OTHER BITS EVERY RUN");
  else
    std::printf("%-64s apart %8.1f us  the library has no such product\n", row.name.c_str(), 1e6 * row.apart_seconds);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app{"Epilogues of cuBLASLt beside products and passes"};
  std::string device_name = "cuda:0";
  bool json = false;
  app.add_option("--device", device_name, "cuda:N");
  app.add_flag("--json", json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  const DevicePtr device = make_device(device_name);
  require<UsageError>(device->kind() == DeviceKind::cuda, "needs a CUDA device, got ", device_name, "; give --device cuda:0");
  for (const Layer& layer : kLayers) print(of_bias(layer, device), json);
  for (const Layer& layer : kLayers)
    if (layer.in > layer.out)
      for (const DType bias_dtype : {DType::f32, DType::bf16}) print(of_gelu(layer, device, bias_dtype), json);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run_program("epilogue_bench", sluice::bench::run, argc, argv); }
