#include "training/decoding/translator.h"

#include <algorithm>
#include <map>

#include "core/ops/copy.h"

namespace sluice::training {

namespace {

DecoderOptions decoder_options(const TranslatorOptions& options) {
  require(options.sentences >= 1 && options.groups >= 1 && options.beams >= 1,
          "TranslatorOptions: needs sentences, groups and beams >= 1, got ", options.sentences, ", ", options.groups, " and ",
          options.beams);
  return {.tokens = "target",
          .rows = options.sentences * options.beams,
          .groups = options.groups,
          .pipeline = {.precision = options.precision,
                       .micro_batches = static_cast<int>(std::min<int64_t>(options.groups, options.sentences)),
                       .timeout_seconds = options.timeout_seconds}};
}

int64_t context_of(const layers::Graph& graph, const char* name) {
  for (const auto& input : graph.inputs())
    if (input.name == name && input.sample_shape && input.sample_shape->rank() == 1) return (*input.sample_shape)[0];
  throw UsageError(join("translate: needs a model with an input '", name, "' of tokens, as translation_model makes"));
}

/// Each row of x [N, ...] `times` times in a row.
Tensor repeated(const Tensor& x, int64_t times) {
  const int64_t rows = x.dim(0), width = x.elements() / rows;
  const Tensor all = empty({rows, times, width}, x.dtype()), once = x.reshape({rows, 1, width});
  for (int64_t i = 0; i < times; ++i) copy(once, all.slice(1, i, i + 1));
  std::vector<int64_t> extents(x.shape().extents().begin(), x.shape().extents().end());
  extents[0] = rows * times;
  return all.reshape(Shape(extents));
}

}  // namespace

Translator::Translator(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
                       const TranslatorOptions& options)
    : options_(options),
      decoder_(graph, weights, std::move(devices), decoder_options(options)),
      source_context_(context_of(graph, "source")) {}

void Translator::check(std::span<const Sentence> sentences) const {
  for (size_t i = 0; i < sentences.size(); ++i) {
    const auto tokens = static_cast<int64_t>(sentences[i].source.size());
    require(tokens >= 1 && tokens <= source_context_, "translate: sentence ", i, " needs 1 to ", source_context_,
            " tokens, because that is the model's source_context, got ", tokens, "; split it");
  }
}

/// A group has as many sentences as options say: where fewer are left, the last one fills it up, and what becomes of it there is dropped.
Translator::Group Translator::make_group(std::span<const Sentence> sentences, size_t first) {
  Group group{.first = first};
  const auto count = std::min(static_cast<size_t>(options_.sentences), sentences.size() - first);
  const auto sentence = [&](size_t i) -> const Sentence& { return sentences[first + std::min(i, count - 1)]; };
  size_t longest = 0;
  for (size_t i = 0; i < count; ++i) longest = std::max(longest, sentence(i).source.size());
  std::vector<double> tokens, lengths;
  for (size_t i = 0; i < static_cast<size_t>(options_.sentences); ++i) {
    const auto& source = sentence(i).source;
    tokens.insert(tokens.end(), source.begin(), source.end());
    tokens.insert(tokens.end(), longest - source.size(), 0);
    lengths.push_back(static_cast<double>(source.size()));
  }
  const Shape one{options_.sentences}, shape{options_.sentences, static_cast<int64_t>(longest)};
  group.context = decoder_.encode({{"source", tensor_of(tokens, shape, DType::i32)},
                                   {"source_length", tensor_of(lengths, one, DType::i32)},
                                   {"target_length", tensor_of(std::vector<double>(lengths.size(), 1), one, DType::i32)}});
  for (auto& [name, value] : group.context) value = repeated(value, options_.beams);
  for (size_t i = 0; i < count; ++i)
    group.searches.emplace_back(BeamSearchOptions{.vocabulary = options_.vocabulary,
                                                  .begin_token = sentence(i).begin,
                                                  .end_token = options_.end_token,
                                                  .beams = options_.beams,
                                                  .length_penalty = options_.length_penalty,
                                                  .max_length = decoder_.options().capacity,
                                                  .never = options_.never});
  return group;
}

Decoder::Feed Translator::feed_of(int number, const Group& group, std::span<const Sentence> sentences) const {
  std::vector<double> tokens;
  Decoder::Feed feed{.group = number};
  for (int64_t i = 0; i < options_.sentences; ++i) {
    const size_t search = std::min(static_cast<size_t>(i), group.searches.size() - 1);
    const auto& rows = group.searches[search].rows();
    for (int64_t beam = 0; beam < options_.beams; ++beam) {
      const bool is_live = i == static_cast<int64_t>(search) && beam < static_cast<int64_t>(rows.size());
      tokens.push_back(is_live ? rows[static_cast<size_t>(beam)].token : sentences[group.first + search].begin);
      feed.parents.push_back(static_cast<int32_t>(i * options_.beams + (is_live ? rows[static_cast<size_t>(beam)].parent : beam)));
    }
  }
  feed.tokens = tensor_of(tokens, {static_cast<int64_t>(tokens.size()), 1}, DType::i32);
  if (!group.context.empty()) {
    feed.parents.clear();
    feed.begins_with = &group.context;
  }
  return feed;
}

/// `logits` of all rows of the group.
void Translator::take(Group& group, std::span<const float> logits) const {
  const auto vocabulary = static_cast<size_t>(options_.vocabulary), beams = static_cast<size_t>(options_.beams);
  for (size_t i = 0; i < group.searches.size(); ++i) {
    BeamSearch& search = group.searches[i];
    if (search.done()) continue;
    search.advance(log_probabilities(logits.subspan(i * beams * vocabulary, search.rows().size() * vocabulary), options_.vocabulary));
  }
  group.context.clear();
}

void Translator::translate(std::span<const Sentence> sentences, const std::function<void(size_t number, const Hypothesis& best)>& emit) {
  check(sentences);
  std::map<int, Group> live;                       // by the decoder's group
  std::map<size_t, std::vector<Hypothesis>> done;  // by first sentence, until those before are emitted
  size_t next = 0, emitted = 0;
  while (next < sentences.size() || !live.empty()) {
    for (int number = 0; number < options_.groups && next < sentences.size(); ++number) {
      if (live.contains(number)) continue;
      next += live.emplace(number, make_group(sentences, next)).first->second.searches.size();
    }
    std::vector<Decoder::Feed> feeds;
    for (const auto& [number, group] : live) feeds.push_back(feed_of(number, group, sentences));
    const Tensor logits = decoder_.advance(feeds);
    require(logits.dim(1) == options_.vocabulary, "TranslatorOptions::vocabulary: needs the model's ", logits.dim(1), " tokens, got ",
            options_.vocabulary);
    ++turns_;
    const auto rows = static_cast<size_t>(options_.sentences * options_.beams);
    for (size_t i = 0; i < feeds.size(); ++i) {
      Group& group = live.at(feeds[i].group);
      const size_t elements = rows * static_cast<size_t>(options_.vocabulary);
      take(group, std::span(logits.data<float>() + i * elements, elements));
      if (!std::ranges::all_of(group.searches, &BeamSearch::done)) continue;
      for (const BeamSearch& search : group.searches) done[group.first].push_back(search.best());
      decoder_.end(feeds[i].group);
      live.erase(feeds[i].group);
    }
    for (auto first = done.find(emitted); first != done.end(); first = done.find(emitted)) {
      for (const Hypothesis& best : first->second) emit(emitted++, best);
      done.erase(first);
    }
  }
}

}  // namespace sluice::training
