#include "data/ngram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace sluice::data {

size_t CountTable::slot_of(uint64_t key) const {
  const size_t mask = entries_.size() - 1;
  size_t slot = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (entries_[slot].count != 0 && entries_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void CountTable::increment(uint64_t key) {
  Entry& entry = entries_[slot_of(key)];
  entry.key = key;
  if (entry.count++ == 0 && ++used_ > entries_.size() / 2) grow();
}

uint32_t CountTable::count(uint64_t key) const { return entries_[slot_of(key)].count; }

void CountTable::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  for (const Entry& entry : old)
    if (entry.count != 0) entries_[slot_of(entry.key)] = entry;
}

namespace {

int magnitude_of(uint32_t count) { return static_cast<int>(std::bit_width(count)); }

size_t held_out_begin(std::span<const int32_t> ids) { return ids.size() - ids.size() / 10; }

/// The up to two tokens before position i of a range, oldest first.
std::span<const int32_t> history_of(std::span<const int32_t> ids, size_t i) {
  const size_t size = std::min<size_t>(i, 2);
  return ids.subspan(i - size, size);
}

}  // namespace

Trigram::Trigram(const Tokens& tokens, std::span<const TokenRange> ranges) : vocabulary_(tokens.vocabulary()) {
  require(vocabulary_ <= int64_t{1} << 21, "trigram: needs a vocabulary of at most 2^21, got ", vocabulary_);
  std::vector<std::vector<int32_t>> runs;
  for (const auto& range : ranges) runs.push_back(tokens.run(range.begin, range.end));
  for (const auto& ids : runs) count(ids, 0, held_out_begin(ids));
  for (int length = 0; length < kOrders; ++length) fit(length, runs);
  for (const auto& ids : runs) count(ids, held_out_begin(ids), ids.size());
}

uint64_t Trigram::history_key(std::span<const int32_t> history, int length) const {
  uint64_t key = 0;
  for (const int32_t token : history.last(static_cast<size_t>(length)))
    key = key * static_cast<uint64_t>(vocabulary_) + static_cast<uint64_t>(token);
  return key;
}

void Trigram::count(std::span<const int32_t> ids, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const auto history = history_of(ids, i);
    for (int length = 0; length <= static_cast<int>(history.size()); ++length) {
      const uint64_t key = history_key(history, length);
      histories_[length].increment(key);
      grams_[length].increment(key * static_cast<uint64_t>(vocabulary_) + static_cast<uint64_t>(ids[i]));
    }
  }
}

void Trigram::fit(int length, std::span<const std::vector<int32_t>> runs) {
  std::vector<Observation> observations;
  for (const auto& ids : runs)
    for (size_t i = held_out_begin(ids); i < ids.size(); ++i) {
      const auto history = history_of(ids, i);
      if (static_cast<int>(history.size()) < length) continue;
      const uint64_t key = history_key(history, length);
      const uint32_t seen = histories_[length].count(key);
      if (seen == 0) continue;
      const uint32_t followed = grams_[length].count(key * static_cast<uint64_t>(vocabulary_) + static_cast<uint64_t>(ids[i]));
      observations.push_back({followed / static_cast<double>(seen), probability(history, ids[i], length), magnitude_of(seen)});
    }
  auto& weights = weights_[length];
  weights.fill(0.5);
  for (int round = 0; round < 20; ++round) {
    std::array<double, kMagnitudes> explained{}, total{};
    for (const auto& seen : observations) {
      const double by_estimate = weights[seen.magnitude] * seen.estimate;
      explained[seen.magnitude] += by_estimate / (by_estimate + (1 - weights[seen.magnitude]) * seen.lower);
      total[seen.magnitude] += 1;
    }
    // One success and one failure more keep a weight inside (0, 1), so that no probability is 0.
    for (int m = 0; m < kMagnitudes; ++m) weights[m] = (explained[m] + 1) / (total[m] + 2);
  }
}

double Trigram::probability(std::span<const int32_t> history, int32_t next, int order) const {
  double result = 1.0 / static_cast<double>(vocabulary_);
  for (int length = 0; length < std::min<int>(order, static_cast<int>(history.size()) + 1); ++length) {
    const uint64_t key = history_key(history, length);
    const uint32_t seen = histories_[length].count(key);
    if (seen == 0) break;
    const double estimate =
        grams_[length].count(key * static_cast<uint64_t>(vocabulary_) + static_cast<uint64_t>(next)) / static_cast<double>(seen);
    const double weight = weights_[length][magnitude_of(seen)];
    result = weight * estimate + (1 - weight) * result;
  }
  return result;
}

double Trigram::loss(const LanguageDataset& dataset, std::span<const int64_t> samples, int order) const {
  double sum = 0;
  int64_t targets = 0;
  for (const int64_t sample : samples) {
    const Tensor tokens = dataset.load("tokens", Split::validation, 0, {&sample, 1}),
                 next = dataset.load("targets", Split::validation, 0, {&sample, 1});
    const std::span<const int32_t> window(tokens.data<int32_t>(), static_cast<size_t>(dataset.context()));
    for (size_t i = 0; i < window.size(); ++i) {
      const size_t known = std::min<size_t>(i + 1, kOrders - 1);
      sum -= std::log(probability(window.subspan(i + 1 - known, known), next.data<int32_t>()[i], order));
    }
    targets += dataset.context();
  }
  return targets == 0 ? 0 : sum / static_cast<double>(targets);
}

}  // namespace sluice::data
