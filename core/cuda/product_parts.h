#pragma once
#include <vector>

#include "core/cuda/cublas.h"

namespace sluice::cublas {

/// One of the products that a product is made of, and where its matrices begin within the whole's, in elements.
struct ProductPart {
  Product product;
  int64_t a_offset = 0, b_offset = 0, c_offset = 0, bias_offset = 0;
};

/// What to run for a product, one after the other: itself, or, of a large one with an extent along which a matrix is contiguous that is no
/// whole number of packs of 16 bytes (GPT-2's vocabulary of 50257), the whole packs and what is left over. cuBLASLt has no kernels of Hopper
/// for such extents, however the rows are aligned: it multiplies by kernels of Turing that read element by element, which took six to eight
/// times as long on an H100 (linear/gpt2_logits_50257 beside _50304 of op_bench).
/// Of k what is left over comes first, so that the rest is added to it and rounded to c's dtype at the end: what is rounded in between is a
/// part of the sum as small as a few terms of it. Where c is added to (beta) or has a bias, k stays whole unless c is of the dtype of sums.
/// Depends on extents, dtypes and transpositions alone, so that bits do not depend on where rows lie.
std::vector<ProductPart> parts_of(const Product& product, bool allow_tf32, const CutFrom& cut_from = {});

}  // namespace sluice::cublas
