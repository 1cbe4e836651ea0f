#include "core/cuda/product_parts.h"

namespace sluice::cublas {

namespace {

const void* moved(const void* first, int64_t elements, DType dtype) {
  return static_cast<const char*>(first) + elements * static_cast<int64_t>(size_of(dtype));
}

}  // namespace

void multiply(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c, const CutFrom& cut_from) {
  for (const ProductPart& part : parts_of(product, cuda.allows_tf32(), cut_from))
    multiply_part(cuda, part.product, moved(a, part.a_offset, product.dtype), moved(b, part.b_offset, product.dtype),
                  part.product.has_bias ? moved(bias, part.bias_offset, product.c_dtype) : nullptr,
                  const_cast<void*>(moved(c, part.c_offset, product.c_dtype)));
}

}  // namespace sluice::cublas
