#include "training/decoding/beam_search.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace sluice::training {

namespace {

void check_options(const BeamSearchOptions& options) {
  require(options.vocabulary >= 1 && options.vocabulary <= INT32_MAX, "beam search: needs a vocabulary of 1 to 2^31 - 1 tokens, got ",
          options.vocabulary);
  require(options.beams >= 1, "beam search: needs at least 1 beam, got ", options.beams);
  require(options.max_length >= 1, "beam search: needs a max_length of at least 1, got ", options.max_length);
  require(options.length_penalty >= 0 && std::isfinite(options.length_penalty),
          "beam search: needs a finite length_penalty of at least 0, got ", options.length_penalty);
  const auto check_token = [&](const char* name, int32_t token) {
    require(token >= 0 && token < options.vocabulary, "beam search: needs ", name, " tokens below the vocabulary of ", options.vocabulary,
            ", got ", token);
  };
  check_token("begin", options.begin_token);
  check_token("end", options.end_token);
  for (const int32_t token : options.never) {
    check_token("never", token);
    require(token != options.end_token, "beam search: needs an end token that may come, got ", token, " in never");
  }
}

double length_divisor(int64_t length, double alpha) { return std::pow((5 + static_cast<double>(length)) / 6, alpha); }

}  // namespace

BeamSearch::BeamSearch(BeamSearchOptions options) : options_(std::move(options)) {
  check_options(options_);
  allowed_.assign(static_cast<size_t>(options_.vocabulary), true);
  for (const int32_t token : options_.never) allowed_[static_cast<size_t>(token)] = false;
  rows_.push_back({options_.begin_token, 0});
}

bool BeamSearch::ranks_before(const Continuation& a, const Continuation& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

void BeamSearch::check(std::span<const float> log_probabilities) const {
  require(!done(), "beam search: needs a search that goes on, got one that is done");
  require(log_probabilities.size() == rows_.size() * allowed_.size(), "beam search: needs log-probabilities [", rows_.size(), ", ",
          allowed_.size(), "], got ", log_probabilities.size(), " elements");
  for (size_t i = 0; i < log_probabilities.size(); ++i)
    require<Error>(std::isfinite(log_probabilities[i]) && log_probabilities[i] <= 0,
                   "beam search: needs finite log-probabilities of at most 0, got ", log_probabilities[i], " for token ",
                   i % allowed_.size(), " of row ", i / allowed_.size(), " after ", length_, " tokens");
}

/// The first `beams` continuations and one more for each live beam: a live beam has one that ends, so `beams` others are among them.
std::vector<BeamSearch::Continuation> BeamSearch::best_continuations(std::span<const float> log_probabilities) const {
  std::vector<Continuation> best;  // a heap with the last of them on top
  const size_t wanted = live_.size() + static_cast<size_t>(options_.beams);
  const size_t vocabulary = allowed_.size();
  for (size_t beam = 0; beam < live_.size(); ++beam)
    for (size_t token = 0; token < vocabulary; ++token) {
      if (!allowed_[token]) continue;
      const Continuation next{live_[beam].log_probability + static_cast<double>(log_probabilities[beam * vocabulary + token]),
                              static_cast<int64_t>(beam), static_cast<int32_t>(token)};
      if (best.size() == wanted) {
        if (!ranks_before(next, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), ranks_before);
        best.pop_back();
      }
      best.push_back(next);
      std::push_heap(best.begin(), best.end(), ranks_before);
    }
  std::sort_heap(best.begin(), best.end(), ranks_before);
  return best;
}

Hypothesis BeamSearch::finish(std::vector<int32_t> tokens, double log_probability, bool ended) const {
  return {std::move(tokens), log_probability, log_probability / length_divisor(length_, options_.length_penalty), ended};
}

bool BeamSearch::is_over() const {
  if (live_.empty() || length_ == options_.max_length) return true;
  if (finished_.empty()) return false;
  if (static_cast<int64_t>(finished_.size()) >= options_.beams) return true;
  double best = finished_[0].score;
  for (const auto& hypothesis : finished_) best = std::max(best, hypothesis.score);
  return best >= live_[0].log_probability / length_divisor(options_.max_length, options_.length_penalty);
}

void BeamSearch::advance(std::span<const float> log_probabilities) {
  check(log_probabilities);
  const auto ranked = best_continuations(log_probabilities);
  ++length_;
  std::vector<Beam> next;
  rows_.clear();
  for (size_t rank = 0; rank < ranked.size() && static_cast<int64_t>(next.size()) < options_.beams; ++rank) {
    const auto& [log_probability, beam, token] = ranked[rank];
    auto tokens = live_[static_cast<size_t>(beam)].tokens;
    if (token != options_.end_token) {
      tokens.push_back(token);
      next.push_back({std::move(tokens), log_probability});
      rows_.push_back({token, beam});
    } else if (static_cast<int64_t>(rank) < options_.beams) {
      finished_.push_back(finish(std::move(tokens), log_probability, true));
    }
  }
  live_ = std::move(next);
  if (!is_over()) return;
  rows_.clear();
  if (finished_.empty())
    for (auto& beam : live_) finished_.push_back(finish(std::move(beam.tokens), beam.log_probability, false));
}

std::vector<Hypothesis> BeamSearch::hypotheses() const {
  require(done(), "beam search: needs a search that is done, got one with ", rows_.size(), " rows to extend");
  auto sorted = finished_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (static_cast<int64_t>(sorted.size()) > options_.beams) sorted.resize(static_cast<size_t>(options_.beams));
  return sorted;
}

Hypothesis BeamSearch::best() const { return hypotheses().front(); }

std::vector<float> log_probabilities(std::span<const float> logits, int64_t vocabulary) {
  require(vocabulary >= 1 && logits.size() % static_cast<size_t>(vocabulary) == 0, "log_probabilities: needs logits [rows, ", vocabulary,
          "], got ", logits.size(), " elements");
  std::vector<float> result(logits.size());
  const auto width = static_cast<size_t>(vocabulary);
  for (size_t begin = 0; begin < logits.size(); begin += width) {
    const auto row = logits.subspan(begin, width);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float x : row) sum += std::exp(x - largest);
    const double normalizer = largest + std::log(sum);
    for (size_t i = 0; i < width; ++i) result[begin + i] = static_cast<float>(row[i] - normalizer);
  }
  return result;
}

}  // namespace sluice::training
