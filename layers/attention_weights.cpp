#include "layers/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::layers {

namespace {

/// A [B, rows, heads, N] tensor on the host.
struct Heads {
  explicit Heads(const Tensor& tensor) : rows(tensor.dim(1)), heads(tensor.dim(2)), width(tensor.dim(3)), values(tensor.to_vector()) {}
  const double* at(int64_t sample, int64_t row, int64_t head) const {
    return values.data() + ((sample * rows + row) * heads + head) * width;
  }

  int64_t rows, heads, width;
  std::vector<double> values;
};

/// Of a sample: its length, or all rows where there are no lengths.
std::vector<int64_t> lengths_or_all(const char* whose, const Tensor& lengths, int64_t samples, int64_t rows) {
  if (!lengths.defined()) return std::vector<int64_t>(static_cast<size_t>(samples), rows);
  require(lengths.shape() == Shape{samples}, "attention_weights: needs ", whose, " lengths [", samples, "], got ", lengths.shape());
  const auto values = lengths.to_vector();
  for (size_t sample = 0; sample < values.size(); ++sample)
    require(values[sample] >= 0 && values[sample] <= static_cast<double>(rows), "attention_weights: needs ", whose, " lengths from 0 to ",
            rows, ", got ", values[sample], " of sample ", sample);
  return {values.begin(), values.end()};
}

/// Turns scores into weights that sum to one.
void softmax(double* begin, double* end) {
  const double most = *std::max_element(begin, end);
  std::transform(begin, end, begin, [&](double score) { return std::exp(score - most); });
  const double sum = std::accumulate(begin, end, 0.0);
  std::transform(begin, end, begin, [&](double value) { return value / sum; });
}

}  // namespace

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionMask& mask) {
  require(q.rank() == 4 && k.rank() == 4 && q.dim(0) == k.dim(0) && q.dim(3) == k.dim(3) && k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
          "attention_weights: needs q [B, T, H, N] and k [B, S, G, N] where G divides H, got ", q.shape(), " and ", k.shape());
  const int64_t samples = q.dim(0);
  const Heads queries(q), keys(k);
  const auto query_lengths = lengths_or_all("query", mask.query_lengths, samples, queries.rows);
  const auto key_lengths = lengths_or_all("key", mask.key_lengths, samples, keys.rows);
  const double scale = 1 / std::sqrt(static_cast<double>(queries.width));
  const int64_t heads_of_key = queries.heads / keys.heads;
  std::vector<double> weights(static_cast<size_t>(samples * queries.heads * queries.rows * keys.rows));
  double* row = weights.data();
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t head = 0; head < queries.heads; ++head)
      for (int64_t query = 0; query < queries.rows; ++query, row += keys.rows) {
        const int64_t length = key_lengths[static_cast<size_t>(sample)];
        const int64_t seen = mask.causal ? std::min(length, query + 1 + keys.rows - queries.rows) : length;
        if (query >= query_lengths[static_cast<size_t>(sample)] || seen <= 0) continue;
        const double* of_query = queries.at(sample, query, head);
        for (int64_t key = 0; key < seen; ++key)
          row[key] = scale * std::inner_product(of_query, of_query + queries.width, keys.at(sample, key, head / heads_of_key), 0.0);
        softmax(row, row + seen);
      }
  return tensor_of(weights, {samples, queries.heads, queries.rows, keys.rows}, DType::f64);
}

}  // namespace sluice::layers
