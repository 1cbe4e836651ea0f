#include "core/cuda/cublas_call.h"

#include "core/cuda/choices.h"
#include "core/error.h"

namespace sluice::cublas {

namespace {

int alignment_of(const void* x, int64_t stride, DType dtype) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(x) | static_cast<uintptr_t>(stride) * size_of(dtype) | kWidestAccess;
  return static_cast<int>(bits & -bits);
}

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
}

cublasComputeType_t compute_type(const Kind& kind) {
  if (kind.product.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return kind.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class Value>
void set(cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  cublas_try(cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}
template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  cublas_try(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  cublas_try(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
}

Layout layout_of_a(const Product& p) {
  return {p.dtype, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a_ld, p.batch, p.a_stride};
}
Layout layout_of_b(const Product& p) {
  return {p.dtype, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b_ld, p.batch, p.b_stride};
}

}  // namespace

void cublas_try(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(
        join("cublas: ", call, " failed: ", cublasLtGetStatusString(status), "; run again with CUBLASLT_LOG_LEVEL=5 to see its arguments"));
}

size_t version() { return cublasLtGetVersion(); }
std::string product_prefix(const GpuDescription& gpu) { return join(gpu_prefix(gpu), "cuBLAS ", version(), ": "); }

Kind kind_of(const Cuda& cuda, const Product& product, const Operands& on) {
  return {product, alignment_of(on.a, product.a_stride, product.dtype), alignment_of(on.b, product.b_stride, product.dtype),
          alignment_of(on.c, product.c_stride, product.c_dtype), cuda.allows_tf32() && product.dtype == DType::f32};
}

std::string text_of(const Cuda& cuda, const Kind& kind) {
  const Product& p = kind.product;
  return join(product_prefix(cuda.description()), name_of(p.dtype), kind.allow_tf32 ? " as tf32" : "", " to ", name_of(p.c_dtype), " [",
              p.m, ", ", p.n, ", ", p.k, "] ", p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", p.has_bias ? " + bias" : "",
              p.has_gelu ? join(", gelu of rows ", p.before_ld) : "", p.beta != 0 ? " + c" : "", ", rows ", p.a_ld, " ", p.b_ld, " ",
              p.c_ld, ", batch ", p.batch, " of strides ", p.a_stride, " ", p.b_stride, " ", p.c_stride, ", aligned ", kind.a_alignment,
              " ", kind.b_alignment, " ", kind.c_alignment);
}

Layout::Layout(DType dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride) {
  cublas_try(cublasLtMatrixLayoutInit(&opaque, data_type(dtype), columns, rows, ld), "cublasLtMatrixLayoutInit");
  set(opaque, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(opaque, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
}

Call::Call(const Kind& kind)
    : product_(kind.product),
      a_alignment_(kind.a_alignment),
      b_alignment_(kind.b_alignment),
      c_alignment_(kind.c_alignment),
      a_(layout_of_a(product_)),
      b_(layout_of_b(product_)),
      c_(product_.c_dtype, product_.m, product_.n, product_.c_ld, product_.batch, product_.c_stride) {
  cublas_try(cublasLtMatmulDescInit(&operation_, compute_type(kind), data_type(compute_dtype(product_.dtype))), "cublasLtMatmulDescInit");
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, product_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, product_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (!product_.has_bias) return;
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, product_.has_gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
  set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(product_.c_dtype));
  if (!product_.has_gelu) return;
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, data_type(product_.c_dtype));
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product_.before_ld);
}

void Call::set_epilogue(const Operands& on) {
  if (product_.has_bias) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, on.bias);
  if (product_.has_gelu) set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, on.before);
}

cublasLtMatmulPreferenceOpaque_t Call::preferences() const {
  cublasLtMatmulPreferenceOpaque_t preference;
  cublas_try(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{Cuda::kWorkspaceBytes});
  // The other schemes add parts of a sum up in c's dtype, which may be bf16.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(b_alignment_));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(a_alignment_));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(c_alignment_));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(c_alignment_));
  return preference;
}

std::vector<cublasLtMatmulAlgo_t> Call::candidates(cublasLtHandle_t handle, int most) const {
  cublasLtMatmulPreferenceOpaque_t preference = preferences();
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(handle, &operation_, &b_.opaque, &a_.opaque, &c_.opaque, &c_.opaque, &preference, most,
                                                     found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  cublas_try(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> result;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && can_run(handle, found[i].algo)) result.push_back(found[i].algo);
  return result;
}

bool Call::can_run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = cublasLtMatmulAlgoCheck(handle, &operation_, &b_.opaque, &a_.opaque, &c_.opaque, &c_.opaque, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= size_t{Cuda::kWorkspaceBytes};
}

cublasStatus_t Call::run(Cuda& cuda, cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const Operands& on) const {
  const double one = 1, beta = product_.beta;
  const float narrow_one = 1, narrow_beta = static_cast<float>(beta);
  const bool wide = product_.dtype == DType::f64;  // the factors are of the dtype of sums
  const void *alpha = &narrow_one, *c_factor = &narrow_beta;
  if (wide) alpha = &one, c_factor = &beta;
  return cublasLtMatmul(handle, &operation_, alpha, on.b, &b_.opaque, on.a, &a_.opaque, c_factor, on.c, &c_.opaque, on.c, &c_.opaque,
                        &algorithm, cuda.workspace(), Cuda::kWorkspaceBytes, cuda.stream());
}

}  // namespace sluice::cublas
