#include <random>

#include "core/dtype.h"
#include "tests/emulation/device_array.h"

// The matrix instructions against plain loops over whole matrices, by the layouts of the PTX manual.
namespace sluice::emulation {
namespace {

std::vector<bfloat16> random_matrix(int count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<bfloat16> values(count);
  for (auto& value : values) value = bfloat16(static_cast<float>(static_cast<int>(engine() % 17) - 8));
  return values;
}

/// d [16, 8] = a [16, 16] b [16, 8] + 1, with a and b in rows, as kernels for tensor cores load them.
__global__ void multiply(const bfloat16* a, const bfloat16* b, float* d) {
  __shared__ __align__(16) bfloat16 rows[16 * 16 + 16 * 8];
  for (int i = threadIdx.x; i < 256; i += 32) rows[i] = a[i];
  for (int i = threadIdx.x; i < 128; i += 32) rows[256 + i] = b[i];
  __syncwarp();
  const int lane = threadIdx.x;
  uint32_t left[4], right[2];
  ldmatrix_x4(left, &rows[lane % 16 * 16 + lane / 16 * 8]);
  ldmatrix_x2_trans(right, &rows[256 + lane % 16 * 8]);
  const float ones[4] = {1, 1, 1, 1};
  float sums[4];
  mma_m16n8k16(sums, left, right, ones);
  for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

TEST(Matrix, AProductOfLoadedFragmentsEqualsALoop) {
  const auto a = random_matrix(256, 1), b = random_matrix(128, 2);
  const DeviceArray<bfloat16> left(a), right(b);
  const DeviceArray<float> d(128);
  ASSERT_EQ(run({1, 32}, multiply, left.data, right.data, d.data), cudaSuccess);
  const auto found = d.values();
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float expected = 1;
      for (int k = 0; k < 16; ++k) expected += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(found[row * 8 + column], expected) << row << ' ' << column;
    }
}

__global__ void load_registers(const uint16_t* matrix, uint32_t* plain, uint32_t* transposed) {
  uint32_t one[1], two[1];
  ldmatrix_x1(one, matrix + threadIdx.x % 8 * 8);
  ldmatrix_x1_trans(two, matrix + threadIdx.x % 8 * 8);
  plain[threadIdx.x] = one[0];
  transposed[threadIdx.x] = two[0];
}

TEST(Matrix, LdmatrixGivesALaneTwoNeighboursOfARowOrAColumn) {
  std::vector<uint16_t> values(64);
  for (int i = 0; i < 64; ++i) values[i] = static_cast<uint16_t>(100 * (i / 8) + i % 8);
  const DeviceArray<uint16_t> matrix(values);
  const DeviceArray<uint32_t> plain(32), transposed(32);
  ASSERT_EQ(run({1, 32}, load_registers, matrix.data, plain.data, transposed.data), cudaSuccess);
  const auto rows = plain.values(), columns = transposed.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned i = lane / 4, j = lane % 4 * 2;
    EXPECT_EQ(rows[lane], 100 * i + j + (100 * i + j + 1) * 65536);
    EXPECT_EQ(columns[lane], 100 * j + i + (100 * (j + 1) + i) * 65536);
  }
}

__global__ void load_off_a_row(const uint16_t* matrix) {
  uint32_t registers[4];
  ldmatrix_x4(registers, matrix + 1);
}

TEST(Matrix, AMisalignedRowOrAPartialWarpIsAFault) {
  const DeviceArray<uint16_t> matrix(64);
  EXPECT_TRUE(holds(fault_of({1, 32}, load_off_a_row, matrix.data), "multiple of 16 bytes"));
  EXPECT_TRUE(holds(fault_of({1, 48}, load_registers, matrix.data, nullptr, nullptr), "needs all 32 lanes"));
}

}  // namespace
}  // namespace sluice::emulation
