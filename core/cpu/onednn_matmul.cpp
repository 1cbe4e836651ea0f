// oneDNN's matrix products, of versions 2.x and 3.x, whose primitive descriptors are made differently.
#include "core/cpu/onednn_matmul.h"

#include <algorithm>
#include <limits>

#include "core/cpu/onednn_engine.h"
#include "core/cpu/onednn_library.h"

namespace sluice::onednn {

namespace {

/// A compiled product with its memory handles, whose addresses are set at each run.
struct Compiled {
  dnnl::memory a, b, bias, c, scratch;
  Bound product;
  int64_t scratch_bytes = 0;
};

/// The dtype of c and of the bias.
DType result_dtype(const Product& product) { return product.f32_result ? DType::f32 : product.dtype; }

dnnl::memory::desc matrix(DType dtype, int64_t rows, int64_t columns, int64_t ld, bool transposed) {
  const auto type = dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  return {{rows, columns}, type, transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

dnnl::matmul::primitive_desc described(const Product& p, const dnnl::primitive_attr& attributes) {
  const auto a = matrix(p.dtype, p.m, p.k, p.a_ld, p.transpose_a), b = matrix(p.dtype, p.k, p.n, p.b_ld, p.transpose_b),
             c = matrix(result_dtype(p), p.m, p.n, p.c_ld, false);
  const auto bias = p.has_bias ? matrix(result_dtype(p), 1, p.n, p.n, false) : dnnl::memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, bias, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, bias, c), attributes, engine()};
#endif
}

/// Errors  dnnl::error when this CPU has no such product.
Compiled compile(const Product& product) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.beta != 0) {
    dnnl::post_ops sum;
    sum.append_sum(static_cast<float>(product.beta));
    attributes.set_post_ops(sum);
  }
  const auto description = described(product, attributes);
  Compiled compiled{handle(description.src_desc()),
                    handle(description.weights_desc()),
                    product.has_bias ? handle(matrix(result_dtype(product), 1, product.n, product.n, false)) : dnnl::memory(),
                    handle(description.dst_desc()),
                    handle(description.scratchpad_desc()),
                    {},
                    static_cast<int64_t>(description.scratchpad_desc().get_size())};
  compiled.product = Bound(dnnl::matmul(description), {{DNNL_ARG_SRC, compiled.a},
                                                       {DNNL_ARG_WEIGHTS, compiled.b},
                                                       {DNNL_ARG_BIAS, compiled.bias},
                                                       {DNNL_ARG_DST, compiled.c},
                                                       {DNNL_ARG_SCRATCHPAD, compiled.scratch}});
  return compiled;
}

Compiled* find(const Product& product) { return find_compiled<Compiled>(product, compile); }

}  // namespace

std::optional<int64_t> scratch_bytes(const Product& product) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // beyond it oneDNN divides by zero
  if (std::max({product.m, product.k, product.n}) > kMost) return std::nullopt;
  if (product.dtype != DType::f32 && (product.dtype != DType::bf16 || emulates_bf16())) return std::nullopt;
  const Compiled* compiled = find(product);
  return compiled ? std::optional(compiled->scratch_bytes) : std::nullopt;
}

void multiply(const Product& product, const void* a, const void* b, const void* bias, void* c, void* scratch) {
  Compiled* compiled = find(product);
  require<DeviceError>(compiled != nullptr, "matmul: oneDNN has no product of ", product.m, " x ", product.k, " x ", product.n, " in ",
                       name_of(product.dtype));
  set(compiled->a, a);
  set(compiled->b, b);
  if (product.has_bias) set(compiled->bias, bias);
  set(compiled->c, c);
  set(compiled->scratch, scratch);
  const OneThread guard;
  compiled->product.run();
}

bool multiply_by_blas(const Product& p, const float* a, const float* b, float* c) {
  const OneThread guard;
  const auto letter = [](bool transpose) { return transpose ? 'T' : 'N'; };
  return dnnl_sgemm(letter(p.transpose_a), letter(p.transpose_b), p.m, p.n, p.k, 1, a, p.a_ld, b, p.b_ld, static_cast<float>(p.beta), c,
                    p.c_ld) == dnnl_success;
}

}  // namespace sluice::onednn
