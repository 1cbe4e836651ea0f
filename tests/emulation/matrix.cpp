#include "core/dtype.h"
#include "cuda_runtime.h"

namespace sluice::emulation {

namespace {

float half_of(uint32_t pair, int half) { return std::bit_cast<float>(half ? pair & 0xffff0000u : pair << 16); }

struct Product {
  float (*d)[4];
  const uint32_t (*a)[4];
  const uint32_t (*b)[2];
  const float (*c)[4];
};

const Product& product_of(void* const* operands, int lane) { return *static_cast<const Product*>(operands[lane]); }

/// Lane 4 g + t holds of a the rows g and g + 8, of b the column g; registers go through the rows first, then eight columns on.
struct Factors {
  explicit Factors(void* const* operands) {
    for (int k = 0; k < 16; ++k) {
      for (int row = 0; row < 16; ++row)
        a[row][k] = half_of((*product_of(operands, row % 8 * 4 + k % 8 / 2).a)[row / 8 + k / 8 * 2], k % 2);
      for (int column = 0; column < 8; ++column) b[k][column] = half_of((*product_of(operands, column * 4 + k % 8 / 2).b)[k / 8], k % 2);
    }
  }
  float a[16][16], b[16][8];
};

void combine_product(void* const* operands, uint32_t) {
  const Factors factors(operands);
  for (int row = 0; row < 16; ++row) {
    float sums[8];
    const auto element = [&](auto& values, int column) -> auto& { return values[row / 8 * 2 + column % 2]; };
    const auto lane = [&](int column) { return row % 8 * 4 + column / 2; };
    for (int column = 0; column < 8; ++column) sums[column] = element(*product_of(operands, lane(column)).c, column);
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sums[column] += factors.a[row][k] * factors.b[k][column];
    for (int column = 0; column < 8; ++column) element(*product_of(operands, lane(column)).d, column) = sums[column];
  }
}
constexpr WarpOperation kProduct{"mma.m16n8k16", combine_product};

struct Rows {
  uint32_t* registers;
  const void* address;
};

template <int count, bool transposed>
void combine_load(void* const* operands, uint32_t) {
  const auto element = [&](int matrix, int row, int column) {
    return uint32_t{static_cast<const uint16_t*>(static_cast<const Rows*>(operands[8 * matrix + row])->address)[column]};
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int matrix = 0; matrix < count; ++matrix) {
      const int i = lane / 4, j = lane % 4 * 2;
      static_cast<Rows*>(operands[lane])->registers[matrix] =
          transposed ? element(matrix, j, i) | element(matrix, j + 1, i) << 16 : element(matrix, i, j) | element(matrix, i, j + 1) << 16;
    }
}
template <int count, bool transposed>
constexpr WarpOperation kLoad{transposed ? "ldmatrix.trans" : "ldmatrix", combine_load<count, transposed>};

/// A partial warp has lanes that cannot come, and these functions need all.
void need_whole_warp(const char* name) {
  if (lanes_of_warp() != ~0u) fail(std::string(name) + ": needs all 32 lanes of the warp, and the block ends within it");
}

template <int count, bool transposed>
void load(uint32_t (&registers)[count], const void* address) {
  need_whole_warp("ldmatrix");
  if (static_cast<int>(lane()) < 8 * count && reinterpret_cast<uintptr_t>(address) % 16 != 0)
    fail("ldmatrix: a row must begin at a multiple of 16 bytes; check the row pitch in shared memory");
  Rows rows{registers, address};
  warp_operation(kLoad<count, transposed>, ~0u, &rows);
}

}  // namespace

void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
  need_whole_warp("mma.m16n8k16");
  Product product{&d, &a, &b, &c};
  warp_operation(kProduct, ~0u, &product);
}

void ldmatrix_x1(uint32_t (&registers)[1], const void* row_address) { load<1, false>(registers, row_address); }
void ldmatrix_x2(uint32_t (&registers)[2], const void* row_address) { load<2, false>(registers, row_address); }
void ldmatrix_x4(uint32_t (&registers)[4], const void* row_address) { load<4, false>(registers, row_address); }
void ldmatrix_x1_trans(uint32_t (&registers)[1], const void* row_address) { load<1, true>(registers, row_address); }
void ldmatrix_x2_trans(uint32_t (&registers)[2], const void* row_address) { load<2, true>(registers, row_address); }
void ldmatrix_x4_trans(uint32_t (&registers)[4], const void* row_address) { load<4, true>(registers, row_address); }

}  // namespace sluice::emulation
