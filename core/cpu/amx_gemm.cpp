#include "core/cpu/amx_gemm.h"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "core/cpu/amx.h"
#include "core/cpu/amx_panels.h"

namespace sluice {

using namespace amx;

namespace {

/// Of rows, columns and depth, in elements.
struct Limits {
  // Two panels of one depth lie in the first-level cache; a block of a, one of b, and their sums in the second. A product that is not deep is
  // multiplied at once: its sums stay in tiles.
  int64_t depth, whole_depth, block_rows, block_columns;
  // What is packed at once of b, and of a block's rows, lies in the third. Where a product is deeper, sums of so many rows lie between its
  // parts.
  int64_t packed_depth, packed_columns, strip_rows;
};
template <class T>
constexpr Limits kLimits{256, 512, 256, 512, 2048, 1024, 1024};
template <>
constexpr Limits kLimits<float>{128, 512, 256, 256, 2048, 512, 1024};

/// Sums of two panels, and where the next two have theirs: floats from row to row, from panel to panel of a's and of b's.
struct Sums {
  float* data = nullptr;  ///< null for zeros
  int64_t step = 0, by_a = 0, by_b = 0;
  float* at(int64_t i, int64_t j) const { return data ? data + i * by_a + j * by_b : nullptr; }
};

/// to [rows, columns] = from; the steps are elements between rows.
void copy_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, float* to, int64_t to_step) {
  for (int64_t row = 0; row < rows; ++row) copy_floats(from + row * from_step, columns, to + row * to_step);
}
void copy_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, bfloat16* to, int64_t to_step) {
  round_rows(from, from_step, rows, columns, to, to_step);
}
/// to [rows, columns] += from.
template <class C>
void add_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, C* to, int64_t to_step) {
  for (int64_t row = 0; row < rows; ++row) add_row(from + row * from_step, columns, to + row * to_step);
}

// Of few rows each panel of b is read once, as soon as it is packed: a few of them stay in the first-level cache or near it.
constexpr int64_t kFewRows = 64, kFewColumns = 128;

/// How a product is cut into what is packed at once, and that into blocks.
template <class T>
struct Sizes {
  static constexpr Limits kMost = kLimits<T>;
  explicit Sizes(const onednn::Product& p)
      : packed_depth(std::min(kMost.packed_depth, rounded_up(p.k, kTileDepth))),
        packed_columns(std::min(kMost.packed_columns, rounded_up(p.n, kPanel))),
        strip_rows(p.k > kMost.packed_depth ? std::min(kMost.strip_rows, rounded_up(p.m, kPanel)) : 0),
        block_rows(std::min(kMost.block_rows, rounded_up(p.m, kPanel))),
        keeps_a(p.n > kMost.block_columns),
        block_columns(std::min(keeps_a && p.m <= kFewRows ? kFewColumns : kMost.block_columns, packed_columns)),
        keeps_b(p.m > block_rows),
        depth(std::min(keeps_a && p.k <= kMost.whole_depth ? kMost.whole_depth : kMost.depth, packed_depth)) {}

  int64_t a_elements() const { return panel_elements<T>(block_rows, keeps_a ? packed_depth : depth); }
  int64_t b_elements() const { return keeps_b ? panel_elements<T>(packed_columns, packed_depth) : panel_elements<T>(block_columns, depth); }
  int64_t block_floats() const { return packed_depth > depth ? block_rows * block_columns : 0; }
  int64_t strip_floats() const { return strip_rows * packed_columns; }

  int64_t packed_depth, packed_columns, strip_rows, block_rows;
  bool keeps_a;  ///< for further blocks of columns; else panels of one depth after another lie in one place, which stays in the cache
  int64_t block_columns;
  bool keeps_b;  ///< for further blocks of rows
  int64_t depth;
};

/// One product, with what it has in its scratch.
template <class T, class C>
class Multiplication {
 public:
  Multiplication(const onednn::Product& product, const T* a, const T* b, const C* bias, C* c, ListedRows rows, void* scratch)
      : p_(product),
        sizes_(product),
        a_{a, product.a_ld, rows},
        b_{b, product.b_ld, product.transpose_a && !product.transpose_b ? rows : ListedRows{}},
        bias_(bias),
        c_(c),
        rows_(product.transpose_a ? ListedRows{} : rows) {
    b_panels_ = static_cast<bfloat16*>(scratch);
    a_panels_ = b_panels_ + sizes_.b_elements();
    bias_floats_ = reinterpret_cast<float*>(a_panels_ + sizes_.a_elements());
    block_sums_ = bias_floats_ + sizes_.packed_columns;
    strip_sums_ = block_sums_ + sizes_.block_floats();
  }

  void run() {
    const Range all_rows{0, p_.m}, all_columns{0, p_.n}, all_depth{0, p_.k};
    const int64_t strip = sizes_.strip_rows > 0 ? sizes_.strip_rows : p_.m;
    for (int64_t column = 0; column < p_.n; column += kMost.packed_columns) {
      const Range columns = all_columns.part(column, kMost.packed_columns);
      if (p_.has_bias) copy_floats(bias_ + column, columns.count, bias_floats_);
      for (int64_t row = 0; row < p_.m; row += strip)
        for (int64_t k = 0; k < p_.k; k += kMost.packed_depth)
          multiply(all_rows.part(row, strip), columns, all_depth.part(k, kMost.packed_depth));
    }
  }

 private:
  static constexpr Limits kMost = kLimits<T>;

  /// Some of the rows, columns and depth, with the panels of both matrices.
  struct Block {
    Range rows, columns, depth;
    bfloat16 *a, *b;
    int64_t steps() const { return steps_of(depth.count); }
    const bfloat16* a_panel(int64_t i) const { return a + i * steps() * kPanelStep<T>; }
    const bfloat16* b_panel(int64_t j) const { return b + j * steps() * kPanelStep<T>; }
    /// Of two panels.
    int64_t height(int64_t i) const { return std::min(kPanel, rows.count - i * kPanel); }
    int64_t width(int64_t j) const { return std::min(kPanel, columns.count - j * kPanel); }
  };

  /// The rows of a strip by the columns and the depth that are packed at once. Panels are packed by the first block that needs them.
  void multiply(const Range& strip, const Range& packed_columns, const Range& packed_depth) {
    for (int64_t row = 0; row < strip.count; row += kMost.block_rows)
      for (int64_t column = 0; column < packed_columns.count; column += sizes_.block_columns)
        for (int64_t k = 0; k < packed_depth.count; k += sizes_.depth) {
          Block block{strip.part(row, kMost.block_rows), packed_columns.part(column, sizes_.block_columns),
                      packed_depth.part(k, sizes_.depth), nullptr, nullptr};
          block.a = a_panels_ + (sizes_.keeps_a ? panel_elements<T>(sizes_.block_rows, k) : 0);
          block.b =
              b_panels_ + (sizes_.keeps_b ? panel_elements<T>(sizes_.packed_columns, k) + panel_elements<T>(column, block.depth.count) : 0);
          if (column == 0) (p_.transpose_a ? pack<false, true, T> : pack<true, true, T>)(a_, block.rows, block.depth, block.a);
          if (row == 0) (p_.transpose_b ? pack<true, false, T> : pack<false, false, T>)(b_, block.columns, block.depth, block.b);
          const Sums of_block{block_sums_, kPanel, kPanel * kPanel, sizes_.block_rows * kPanel};
          const Sums of_strip{strip_sums_ + row * sizes_.packed_columns + column, sizes_.packed_columns, kPanel * sizes_.packed_columns,
                              kPanel};
          if (block.depth.first == 0)
            begin(block, {bias_floats_ + column, 0, 0, kPanel}, block.depth.count < packed_depth.count ? of_block : of_strip);
          else if (block.depth.end() < p_.k)
            add(block, k > 0 ? of_block : of_strip, k + block.depth.count < packed_depth.count ? of_block : of_strip);
          else
            finish(block, k > 0 ? of_block : of_strip);
        }
  }

  /// The first depth, which may be all.
  void begin(const Block& block, const Sums& of_bias, const Sums& after) {
    const Sums before = p_.has_bias ? of_bias : Sums{};
    if (block.depth.end() == p_.k) return finish(block, before);
    add(block, before, after);
  }

  /// Columns follow each other: what is written of c then lies along its rows.
  void add(const Block& block, const Sums& before, const Sums& after) {
    for (int64_t i = 0; i * kPanel < block.rows.count; ++i)
      for (int64_t j = 0; j * kPanel < block.columns.count; ++j)
        multiply_panels<T>(block.steps(), block.a_panel(i), block.b_panel(j), before.at(i, j), before.step, after.at(i, j), after.step,
                           block.height(i), block.width(j));
  }

  /// The same of the last depth, whose sums are the results, or are added to them as a pass afterwards would.
  void finish(const Block& block, const Sums& before) {
    const bool adds = p_.beta != 0;
    alignas(64) float sums[kPanel * kPanel];
    for (int64_t i = 0; i * kPanel < block.rows.count; ++i)
      for (int64_t j = 0; j * kPanel < block.columns.count; ++j) {
        const int64_t height = block.height(i), width = block.width(j);
        const bool is_whole = height == kPanel && width == kPanel;
        const auto multiply_to = [&](float* place, int64_t step) __attribute__((always_inline)) {
          multiply_panels<T>(block.steps(), block.a_panel(i), block.b_panel(j), before.at(i, j), before.step, place, step, height, width);
        };
        if constexpr (std::is_same_v<C, float>)
          if (is_whole && !adds && rows_.together(block.rows.first + i * kPanel, kPanel) == kPanel) {
            multiply_to(result(block, i * kPanel, j), p_.c_ld);
            continue;
          }
        if (adds)  // the results lie far from the core
          each_run(block, i, j, [&](const C* to, int64_t, int64_t count) {
            for (int64_t row = 0; row < count; ++row) ask_for_row(to + row * p_.c_ld, width);
          });
        multiply_to(sums, kPanel);
        each_run(block, i, j, [&](C* to, int64_t row, int64_t count) {
          const float* const from = sums + row * kPanel;
          adds ? add_rows(from, kPanel, count, width, to, p_.c_ld) : copy_rows(from, kPanel, count, width, to, p_.c_ld);
        });
      }
  }

  /// Of a row of the block, where the j-th panel of b begins.
  C* result(const Block& block, int64_t row, int64_t j) const {
    return c_ + rows_.at(block.rows.first + row) * p_.c_ld + block.columns.first + j * kPanel;
  }
  /// Calls body(their place in c, the first of them in a panel of a, how many) for rows that follow each other.
  template <class Body>
  void each_run(const Block& block, int64_t i, int64_t j, const Body& body) const {
    const int64_t first = i * kPanel, height = block.height(i);
    for (int64_t row = 0, count = 0; row < height; row += count) {
      count = rows_.together(block.rows.first + first + row, height - row);
      body(result(block, first + row, j), row, count);
    }
  }

  const onednn::Product& p_;
  Sizes<T> sizes_;
  Runs<T> a_, b_;
  const C* bias_;
  C* c_;
  ListedRows rows_;
  bfloat16 *b_panels_, *a_panels_;
  float *bias_floats_, *block_sums_, *strip_sums_;
};

template <class T>
int64_t scratch_of(const onednn::Product& p) {
  const auto of = [&](int64_t columns, int64_t depth) {
    onednn::Product product = p;
    product.n = columns;
    product.k = depth;
    const Sizes<T> sizes(product);
    return (sizes.a_elements() + sizes.b_elements()) * static_cast<int64_t>(sizeof(bfloat16)) +
           (sizes.packed_columns + sizes.block_floats() + sizes.strip_floats()) * static_cast<int64_t>(sizeof(float));
  };
  // A product that is not deep is multiplied at once, and one of few columns has sums beside it: they may take more than larger ones.
  const int64_t columns = std::min(p.n, kLimits<T>.block_columns), depth = std::min(p.k, kLimits<T>.whole_depth);
  return std::max({of(p.n, p.k), of(p.n, depth), of(columns, p.k), of(columns, depth)});
}

}  // namespace

int64_t amx_gemm_scratch(const onednn::Product& p) { return p.dtype == DType::f32 ? scratch_of<float>(p) : scratch_of<bfloat16>(p); }

template <class T, class C>
void amx_gemm(const onednn::Product& product, const T* a, const T* b, const C* bias, C* c, ListedRows rows, void* scratch) {
  assert(!rows.numbers || !product.transpose_a || !product.transpose_b);
  const AmxTiles tiles;
  Multiplication<T, C>(product, a, b, bias, c, rows, scratch).run();
}

template void amx_gemm(const onednn::Product&, const float*, const float*, const float*, float*, ListedRows, void*);
template void amx_gemm(const onednn::Product&, const bfloat16*, const bfloat16*, const bfloat16*, bfloat16*, ListedRows, void*);
template void amx_gemm(const onednn::Product&, const bfloat16*, const bfloat16*, const float*, float*, ListedRows, void*);

}  // namespace sluice
