#pragma once
#include <algorithm>

#include "core/cpu/amx.h"
#include "core/cpu/amx_panels.h"
#include "core/ops/attention_heads_cpu.h"

/// Attention in bf16 or f32 by the tiles of AMX. In bf16 softmax weights and gradients of scores are rounded before they are multiplied with
/// rows of heads; all sums are in f32. Between its constructor and destructor a way has the thread's tiles.
namespace sluice::kernels::attention_heads {

static_assert(kQueries == amx::kPanel && kKeys % amx::kPanel == 0);

/// A thread's panels in scratch of f32.
inline bfloat16* take_panels(Pieces<float>& pieces, int64_t elements) { return reinterpret_cast<bfloat16*>(pieces.take(elements / 2)); }
/// The columns of a block of scores, in whole panels.
inline int64_t block_columns_of(int64_t keys) { return rounded_up(std::min(kKeys, keys), amx::kPanel); }

/// to [height, width] = panels of a times panels of b, or what is there and those. Panels are `a_panel` and `b_panel` elements apart.
template <class T>
void multiply_all_panels(int64_t steps, const bfloat16* a, int64_t a_panel, const bfloat16* b, int64_t b_panel, bool adds, float* to,
                         int64_t to_step, int64_t height, int64_t width) {
  for (int64_t i = 0; i * amx::kPanel < height; ++i)
    for (int64_t j = 0; j * amx::kPanel < width; ++j) {
      float* const place = to + i * amx::kPanel * to_step + j * amx::kPanel;
      amx::multiply_panels<T>(steps, a + i * a_panel, b + j * b_panel, adds ? place : nullptr, to_step, place, to_step,
                              height - i * amx::kPanel, width - j * amx::kPanel);
    }
}

/// Keys or values as the right factor of products: either as its columns, or as what is summed over, block by block of keys.
template <class T>
struct KeyPanels {
  static int64_t elements(int64_t keys, int64_t width) { return amx::panel_elements<T>(keys, width); }

  void pack_as_columns(const HeadRows<T>& rows) const { amx::pack<true, false, T>({rows.data, rows.step}, {0, keys}, {0, width}, data); }
  void pack_as_depth(const HeadRows<T>& rows) const {
    for (int64_t key = 0; key < keys; key += kKeys)
      amx::pack<false, false, T>({rows.data, rows.step}, {0, width}, {key, std::min(kKeys, keys - key)}, at(key));
  }

  /// block [rows, columns] = left of `width` times columns from `key` on.
  void multiply_columns(const bfloat16* left, int64_t rows, int64_t key, int64_t columns, float* block, int64_t block_step) const {
    const int64_t steps = amx::steps_of(width);
    multiply_all_panels<T>(steps, left, 0, at(key), steps * amx::kPanelStep<T>, false, block, block_step, rows, columns);
  }
  /// sums [rows, width] = left of `columns`, times the keys from `key` on, or what is there and that.
  void multiply_depth(const bfloat16* left, int64_t rows, int64_t key, int64_t columns, bool adds, float* sums, int64_t sum_step) const {
    const int64_t packed_steps = amx::steps_of(std::min(kKeys, keys - key));
    multiply_all_panels<T>(amx::steps_of(columns), left, 0, at(key), packed_steps * amx::kPanelStep<T>, adds, sums, sum_step, rows, width);
  }

  bfloat16* data;
  int64_t keys, width;

 private:
  /// The panels of keys from there on, which begin a block.
  bfloat16* at(int64_t key) const { return data + amx::panel_elements<T>(key, width); }
};

/// A block of scores in T, as the left factor of products.
template <class T>
class WeightPanels {
 public:
  WeightPanels(Pieces<float>& pieces, int64_t keys)
      : step_(block_columns_of(keys)),
        rows_(take_panels(pieces, rounded_elements(keys))),
        panels_(take_panels(pieces, panel_elements(keys))) {}
  static int64_t elements(int64_t keys) { return rounded_elements(keys) + panel_elements(keys); }

  /// Queries are its rows.
  const bfloat16* by_query(const float* block, int64_t block_step, int64_t rows, int64_t columns) const {
    amx::pack<true, true, T>(in_dtype(block, block_step, rows, columns), {0, rows}, {0, columns}, panels_);
    return panels_;
  }
  /// Keys are; it is summed over queries, which are one step.
  const bfloat16* by_key(const float* block, int64_t block_step, int64_t rows, int64_t columns) const {
    amx::pack<false, true, T>(in_dtype(block, block_step, rows, columns), {0, columns}, {0, rows}, panels_);
    return panels_;
  }

 private:
  static int64_t panel_elements(int64_t keys) { return amx::panel_elements<T>(kQueries, block_columns_of(keys)); }
  static int64_t rounded_elements(int64_t keys) { return std::is_same_v<T, float> ? 0 : kQueries * block_columns_of(keys); }

  Runs<T> in_dtype(const float* block, int64_t block_step, int64_t rows, int64_t columns) const {
    if constexpr (std::is_same_v<T, float>) {
      return {block, block_step};
    } else {
      amx::round_rows(block, block_step, rows, columns, rows_, step_);
      return {rows_, step_};
    }
  }

  int64_t step_;
  bfloat16 *rows_, *panels_;
};

template <class T>
class AmxForward {
 public:
  using C = float;
  AmxForward(float* memory, const Extent& of) : AmxForward(Pieces<float>(memory), of) {}
  static int64_t size(int64_t keys, int64_t width) {
    return (WeightPanels<T>::elements(keys) + 2 * KeyPanels<T>::elements(keys, width) + amx::panel_elements<T>(kQueries, width)) / 2 +
           kQueries * (padded_step(width) + block_step_of(keys) + 2);
  }

  void load_keys(const HeadRows<T>& keys, const HeadRows<T>& values) const {
    keys_.pack_as_columns(keys);
    values_.pack_as_depth(values);
  }
  void load_queries(const HeadRows<T>& from, int64_t first, int64_t rows) const {
    amx::pack<true, true, T>({from.data, from.step}, {first, rows}, {0, extent.width}, queries_);
  }
  void score(int64_t rows, int64_t key, int64_t columns) const {
    keys_.multiply_columns(queries_, rows, key, columns, scores, extent.block_step());
  }
  /// What scores are to be multiplied with: in bf16 queries would be rounded with it.
  float score_factor() const { return static_cast<float>(extent.scale()); }
  void combine(int64_t rows, int64_t key, int64_t columns) const {
    const bfloat16* const weights = weights_.by_query(scores, extent.block_step(), rows, columns);
    values_.multiply_depth(weights, rows, key, columns, key > 0, out, extent.width_step());
  }

  const Extent& extent;
  float *out, *scores, *maximum, *sum;

 private:
  AmxForward(Pieces<float> pieces, const Extent& of) : extent(of), weights_(pieces, of.keys) {
    keys_ = {take_panels(pieces, KeyPanels<T>::elements(of.keys, of.width)), of.keys, of.width};
    values_ = {take_panels(pieces, KeyPanels<T>::elements(of.keys, of.width)), of.keys, of.width};
    queries_ = take_panels(pieces, amx::panel_elements<T>(kQueries, of.width));
    out = pieces.take(kQueries * of.width_step());
    scores = pieces.take(kQueries * of.block_step());
    maximum = pieces.take(kQueries);
    sum = pieces.take(kQueries);
  }

  AmxTiles tiles_;
  WeightPanels<T> weights_;
  KeyPanels<T> keys_, values_;
  bfloat16* queries_;
};

template <class T>
class AmxBackward {
 public:
  using C = float;
  AmxBackward(float* memory, const Extent& of) : AmxBackward(Pieces<float>(memory), of) {}
  static int64_t size(int64_t keys, int64_t width) {
    return (WeightPanels<T>::elements(keys) + 3 * KeyPanels<T>::elements(keys, width) + 4 * amx::panel_elements<T>(kQueries, width)) / 2 +
           (2 * rounded_up(keys, amx::kPanel) + 3 * kQueries) * padded_step(width) + 2 * kQueries * block_step_of(keys) + kQueries;
  }

  void load_keys(const HeadRows<T>& keys, const HeadRows<T>& values) const {
    key_columns_.pack_as_columns(keys);
    key_depth_.pack_as_depth(keys);
    value_columns_.pack_as_columns(values);
    for (float* sums : {dkeys, dvalues}) std::fill_n(sums, rounded_up(extent.keys, amx::kPanel) * extent.width_step(), 0.0f);
  }
  void load_queries(const HeadRows<T>& q, const HeadRows<T>& y, const HeadRows<T>& dy, int64_t first, int64_t rows) const {
    load(y, first, rows, extent.width, 1.0f, y_rows_);
    load(dy, first, rows, extent.width, 1.0f, dy_rows_);
    sum_products(y_rows_, dy_rows_, rows, extent.width, delta);
    amx::pack<true, true, T>({q.data, q.step}, {first, rows}, {0, extent.width}, queries_);
    amx::pack<true, true, T>({dy.data, dy.step}, {first, rows}, {0, extent.width}, dout_);
    amx::pack<false, false, T>({q.data, q.step}, {0, extent.width}, {first, rows}, query_depth_);
    amx::pack<false, false, T>({dy.data, dy.step}, {0, extent.width}, {first, rows}, dout_depth_);
  }
  void score(int64_t rows, int64_t key, int64_t columns) const {
    key_columns_.multiply_columns(queries_, rows, key, columns, weights, extent.block_step());
  }
  float score_factor() const { return static_cast<float>(extent.scale()); }
  void score_gradient(int64_t rows, int64_t key, int64_t columns) const {
    value_columns_.multiply_columns(dout_, rows, key, columns, dscores, extent.block_step());
  }
  void add_to_values(int64_t rows, int64_t key, int64_t columns) const { add_by_key(rows, key, columns, weights, dout_depth_, dvalues); }
  void add_to_keys(int64_t rows, int64_t key, int64_t columns) const { add_by_key(rows, key, columns, dscores, query_depth_, dkeys); }
  void add_to_queries(int64_t rows, int64_t key, int64_t columns) const {
    const bfloat16* const left = left_.by_query(dscores, extent.block_step(), rows, columns);
    key_depth_.multiply_depth(left, rows, key, columns, key > 0, dqueries, extent.width_step());
  }
  /// What the sums are to be multiplied with.
  float query_factor() const { return static_cast<float>(extent.scale()); }
  float key_factor() const { return static_cast<float>(extent.scale()); }

  const Extent& extent;
  float *dkeys, *dvalues, *dqueries, *weights, *dscores, *delta;

 private:
  AmxBackward(Pieces<float> pieces, const Extent& of) : extent(of), left_(pieces, of.keys) {
    for (KeyPanels<T>* panels : {&key_columns_, &key_depth_, &value_columns_})
      *panels = {take_panels(pieces, KeyPanels<T>::elements(of.keys, of.width)), of.keys, of.width};
    for (bfloat16** panels : {&queries_, &dout_, &query_depth_, &dout_depth_})
      *panels = take_panels(pieces, amx::panel_elements<T>(kQueries, of.width));
    for (float** sums : {&dkeys, &dvalues}) *sums = pieces.take(rounded_up(of.keys, amx::kPanel) * of.width_step());
    for (float** rows : {&dqueries, &y_rows_, &dy_rows_}) *rows = pieces.take(kQueries * of.width_step());
    for (float** block : {&weights, &dscores}) *block = pieces.take(kQueries * of.block_step());
    delta = pieces.take(kQueries);
  }

  void add_by_key(int64_t rows, int64_t key, int64_t columns, const float* block, const bfloat16* of_queries, float* sums) const {
    const bfloat16* const left = left_.by_key(block, extent.block_step(), rows, columns);
    multiply_all_panels<T>(1, left, amx::kPanelStep<T>, of_queries, amx::kPanelStep<T>, true, sums + key * extent.width_step(),
                           extent.width_step(), columns, extent.width);
  }

  AmxTiles tiles_;
  WeightPanels<T> left_;
  KeyPanels<T> key_columns_, key_depth_, value_columns_;
  bfloat16 *queries_, *dout_, *query_depth_, *dout_depth_;
  float *y_rows_, *dy_rows_;
};

}  // namespace sluice::kernels::attention_heads
