#include "data/parallel/buckets.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "core/error.h"

namespace sluice::data {

namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

struct GridShape {
  PairLengths lengths;
  int64_t pairs = 0;
};

/// 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40 ... up to `longest`, which is the last.
std::vector<int64_t> grid_of(int64_t longest) {
  std::vector<int64_t> grid;
  for (int64_t side = 4; side < longest;
       side += std::max<int64_t>(2, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(side))) / 4))
    grid.push_back(side);
  grid.push_back(longest);
  return grid;
}

PairLengths cover(PairLengths a, PairLengths b) { return {std::max(a.source, b.source), std::max(a.target, b.target)}; }

void add_pairs(std::vector<GridShape>& shapes, PairLengths lengths, int64_t pairs) {
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const auto& shape) { return shape.lengths == lengths; });
  if (found != shapes.end())
    found->pairs += pairs;
  else
    shapes.push_back({lengths, pairs});
}

/// Shapes a and b < a become one. Shape 0 is the longest, which stays.
struct Merge {
  size_t a = 0, b = 0;
  int64_t padding = std::numeric_limits<int64_t>::max();
};

/// The merge that adds the least padding, of those with a shape of fewer pairs than `fewest` other than the longest; a = 0 for none.
Merge best_merge(const std::vector<GridShape>& shapes, int64_t fewest) {
  Merge best;
  for (size_t a = 1; a < shapes.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const bool is_sparse = shapes[a].pairs < fewest || (b > 0 && shapes[b].pairs < fewest);
      if (!is_sparse) continue;
      const int64_t tokens = cover(shapes[a].lengths, shapes[b].lengths).tokens();
      const int64_t padding =
          shapes[a].pairs * (tokens - shapes[a].lengths.tokens()) + shapes[b].pairs * (tokens - shapes[b].lengths.tokens());
      if (padding < best.padding) best = {a, b, padding};
    }
  return best;
}

void merge(std::vector<GridShape>& shapes, Merge chosen) {
  const GridShape a = shapes[chosen.a], b = shapes[chosen.b];
  shapes.erase(shapes.begin() + static_cast<std::ptrdiff_t>(chosen.a));
  if (chosen.b > 0) shapes.erase(shapes.begin() + static_cast<std::ptrdiff_t>(chosen.b));
  add_pairs(shapes, cover(a.lengths, b.lengths), a.pairs + (chosen.b > 0 ? b.pairs : 0));
}

}  // namespace

std::vector<PairLengths> choose_buckets(std::span<const PairLengths> lengths, PairLengths longest, int64_t most) {
  require(longest.source >= 1 && longest.target >= 1, "buckets: needs a longest pair of at least 1 and 1 tokens, got ", longest.source,
          " and ", longest.target);
  require(most >= 1, "buckets: needs at least 1 bucket, got ", most);
  const auto sources = grid_of(longest.source), targets = grid_of(longest.target);
  const auto round_up = [](const auto& grid, int64_t length) { return *std::lower_bound(grid.begin(), grid.end(), length); };
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const auto& pair : lengths)
    if (pair.fits(longest)) ++counts[{round_up(sources, pair.source), round_up(targets, pair.target)}];
  std::vector<GridShape> shapes{{longest, 0}};
  int64_t pairs = 0;
  for (const auto& [shape, count] : counts) {
    add_pairs(shapes, {shape.first, shape.second}, count);
    pairs += count;
  }
  while (static_cast<int64_t>(shapes.size()) > most) merge(shapes, best_merge(shapes, kAny));
  for (Merge sparse = best_merge(shapes, pairs / 200); sparse.a > 0; sparse = best_merge(shapes, pairs / 200)) merge(shapes, sparse);
  std::vector<PairLengths> buckets;
  for (const auto& shape : shapes) buckets.push_back(shape.lengths);
  std::sort(buckets.begin(), buckets.end(),
            [](const auto& a, const auto& b) { return a.tokens() != b.tokens() ? a.tokens() < b.tokens() : a.source < b.source; });
  return buckets;
}

int64_t find_bucket(std::span<const PairLengths> buckets, PairLengths lengths) {
  const auto found = std::find_if(buckets.begin(), buckets.end(), [&](const auto& bucket) { return lengths.fits(bucket); });
  return found != buckets.end() ? found - buckets.begin() : -1;
}

}  // namespace sluice::data
