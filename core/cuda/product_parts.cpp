#include "core/cuda/product_parts.h"

namespace sluice::cublas {

namespace {

enum class Axis { m, n, k };

int64_t& extent_of(Product& product, Axis axis) { return axis == Axis::m ? product.m : axis == Axis::n ? product.n : product.k; }

/// Whether elements beside each other along the axis lie beside each other in a matrix.
bool is_contiguous(const Product& p, Axis axis) {
  if (axis == Axis::n) return true;  // of c
  return axis == Axis::m ? p.transpose_a : !p.transpose_a || p.transpose_b;
}

/// Of the axis from `first` on.
ProductPart tail_of(const ProductPart& whole, Axis axis, int64_t first) {
  ProductPart tail = whole;
  const Product& p = whole.product;
  extent_of(tail.product, axis) -= first;
  if (axis != Axis::n) tail.a_offset += first * ((axis == Axis::m) == p.transpose_a ? 1 : p.a_ld);
  if (axis != Axis::m) tail.b_offset += first * ((axis == Axis::n) == p.transpose_b ? p.b_ld : 1);
  if (axis != Axis::k) tail.c_offset += first * (axis == Axis::n ? 1 : p.c_ld);
  if (axis == Axis::n) tail.bias_offset += first;
  return tail;
}

/// Whole packs along the axis, and what is left over, in the order in which they run.
std::vector<ProductPart> halves_of(const ProductPart& whole, Axis axis, int64_t packs_extent) {
  ProductPart packs = whole;
  extent_of(packs.product, axis) = packs_extent;
  const ProductPart tail = tail_of(whole, axis, packs_extent);
  if (axis != Axis::k) return {packs, tail};
  packs.product.beta = 1;
  packs.product.has_bias = false;
  return {tail, packs};
}

/// Where the axis begins to be no whole packs; 0 where it stays whole.
int64_t cut_of(Product p, Axis axis, const CutFrom& from) {
  const int64_t pack = kWidestAccess / static_cast<int64_t>(size_of(p.dtype)), extent = extent_of(p, axis);
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const bool is_small = flops < from.flops || extent < from.extent;
  const bool rounds_twice = axis == Axis::k && p.c_dtype != compute_dtype(p.dtype) && (p.beta != 0 || p.has_bias);
  return extent % pack == 0 || is_small || !is_contiguous(p, axis) || rounds_twice ? 0 : extent / pack * pack;
}

}  // namespace

std::vector<ProductPart> parts_of(const Product& product, bool allow_tf32, const CutFrom& cut_from) {
  std::vector<ProductPart> parts{{.product = product}};
  const bool by_tensor_cores = product.dtype == DType::bf16 || (product.dtype == DType::f32 && allow_tf32);
  if (!by_tensor_cores || product.has_gelu) return parts;
  for (const Axis axis : {Axis::n, Axis::k, Axis::m}) {
    std::vector<ProductPart> cut;
    for (const ProductPart& part : parts) {
      const int64_t at = cut_of(part.product, axis, cut_from);
      const auto halves = at > 0 ? halves_of(part, axis, at) : std::vector{part};
      cut.insert(cut.end(), halves.begin(), halves.end());
    }
    parts = std::move(cut);
  }
  return parts;
}

}  // namespace sluice::cublas
