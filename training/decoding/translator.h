#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "training/decoding/beam_search.h"
#include "training/decoding/decoder.h"

namespace sluice::training {

struct TranslatorOptions {
  int64_t vocabulary = 0;       ///< tokens that the model knows
  int64_t sentences = 8;        ///< that are searched together, as one micro-batch
  int groups = 2;               ///< of so many sentences, in the pipeline at once
  int64_t beams = 4;            ///< of each sentence; 1 = greedy
  double length_penalty = 0.6;  ///< see BeamSearchOptions
  int32_t end_token = 0;
  std::vector<int32_t> never{};  ///< tokens that no translation has
  Precision precision = Precision::f32;
  double timeout_seconds = 600;
};

/// Translates sentences with a model of models::translation_model, by beam search over a pipeline on any devices of one kind. Sentences are
/// searched in groups, each a micro-batch of the decoder's runs; a group that is done makes room for the next sentences at once.
/// Threads  one caller.
/// Errors   as Decoder.
class Translator {
 public:
  /// `graph`  with the inputs of models::translation_model.
  Translator(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
             const TranslatorOptions& options);

  struct Sentence {
    std::vector<int32_t> source;  ///< all that the encoder reads
    int32_t begin = 0;            ///< what the decoder begins with: the tag of the language
  };
  /// Calls `emit` for each sentence, in their order, as soon as it and those before are done.
  /// Errors  UsageError for a sentence without tokens or with more than the model's source context, naming its number.
  void translate(std::span<const Sentence> sentences, const std::function<void(size_t number, const Hypothesis& best)>& emit);

  int64_t source_context() const { return source_context_; }
  const Decoder& decoder() const { return decoder_; }
  /// Runs of the decoder so far, each of which adds a token to every live group.
  int64_t turns() const { return turns_; }

 private:
  /// Sentences [first, first + searches.size()) of a call.
  struct Group {
    size_t first = 0;
    std::vector<BeamSearch> searches{};
    Decoder::Inputs context{};  ///< that it begins with; empty once it has
  };
  void check(std::span<const Sentence> sentences) const;
  Group make_group(std::span<const Sentence> sentences, size_t first);
  Decoder::Feed feed_of(int number, const Group& group, std::span<const Sentence> sentences) const;
  void take(Group& group, std::span<const float> logits) const;

  TranslatorOptions options_;
  Decoder decoder_;
  int64_t source_context_;
  int64_t turns_ = 0;
};

}  // namespace sluice::training
