#pragma once
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/config.h"
#include "data/parallel/translation_split.h"
#include "models/translation.h"
#include "parallel/plan/choices.h"
#include "parallel/trainer.h"

/// The words of configs and what they stand for in C++: the only list of both. What options take, and what help says, are these words.
namespace sluice::cli {

template <class Value>
using ChoiceWords = std::vector<std::pair<std::string, Value>>;

inline const ChoiceWords<models::PositionEncoding> kPositionWords{{"learned", models::PositionEncoding::learned},
                                                                  {"sinusoidal", models::PositionEncoding::sinusoidal},
                                                                  {"rotary", models::PositionEncoding::rotary}};
inline const ChoiceWords<models::Normalization> kNormWords{{"layernorm", models::Normalization::layer_norm},
                                                           {"rmsnorm", models::Normalization::rms_norm}};
inline const ChoiceWords<layers::Activation::Kind> kActivationWords{{"gelu", layers::Activation::Kind::gelu},
                                                                    {"gelu_tanh", layers::Activation::Kind::gelu_tanh},
                                                                    {"relu", layers::Activation::Kind::relu},
                                                                    {"silu", layers::Activation::Kind::silu}};
inline const ChoiceWords<models::EmbeddingSharing> kSharingWords{
    {"all", models::EmbeddingSharing::all}, {"target", models::EmbeddingSharing::target}, {"none", models::EmbeddingSharing::none}};
inline const ChoiceWords<data::Directions> kDirectionWords{
    {"forward", data::Directions::forward}, {"backward", data::Directions::backward}, {"both", data::Directions::both}};
inline const ChoiceWords<parallel::PartitionChoice> kPartitionWords{
    {"auto", parallel::kOpen}, {"parameters", parallel::PartitionRule::parameters}, {"uniform", parallel::PartitionRule::uniform}};
inline const ChoiceWords<parallel::RematChoice> kRematWords{
    {"none", parallel::Remat::none}, {"full", parallel::Remat::full}, {"auto", parallel::kOpen}};

inline const ChoiceWords<parallel::ReplicaDevicesChoice> kReplicaDevicesWords{
    {"auto", parallel::kOpen}, {"together", parallel::ReplicaDevices::together}, {"apart", parallel::ReplicaDevices::apart}};
inline const ChoiceWords<parallel::CudaGraphs> kCudaGraphsWords{
    {"off", parallel::CudaGraphs::off}, {"on", parallel::CudaGraphs::on}, {"auto", parallel::CudaGraphs::automatic}};
inline const ChoiceWords<Tuning> kTuningWords{{"off", Tuning::off}, {"quick", Tuning::quick}, {"full", Tuning::full}};
inline const ChoiceWords<parallel::OnNonfinite> kOnNonfiniteWords{{"stop", parallel::OnNonfinite::stop},
                                                                  {"skip", parallel::OnNonfinite::skip}};

/// What model.name builds; the words name further sizes and forms of one kind.
enum class ModelKind { language_model, translation, amoebanet, resnet, unet };
inline const ChoiceWords<ModelKind> kModelWords{{"transformer-lm", ModelKind::language_model},
                                                {"translation", ModelKind::translation},
                                                {"amoebanet-d", ModelKind::amoebanet},
                                                {"amoebanet-b", ModelKind::amoebanet},
                                                {"resnet50", ModelKind::resnet},
                                                {"resnet101", ModelKind::resnet},
                                                {"unet", ModelKind::unet}};
inline constexpr std::initializer_list<ModelKind> kImageModelKinds{ModelKind::amoebanet, ModelKind::resnet, ModelKind::unet};

template <class Value>
std::vector<std::string> words_of(const ChoiceWords<Value>& choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  return words;
}

/// Those that stand for one of these values.
template <class Value>
std::vector<std::string> words_of(const ChoiceWords<Value>& choices, std::initializer_list<Value> values) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices)
    if (std::ranges::find(values, value) != values.end()) words.push_back(word);
  return words;
}

/// What a word stands for; nothing for another one.
template <class Value>
std::optional<Value> choice_of(const ChoiceWords<Value>& choices, std::string_view word) {
  const auto found = std::ranges::find(choices, word, &std::pair<std::string, Value>::first);
  return found == choices.end() ? std::nullopt : std::optional<Value>(found->second);
}

/// The settings take no other words than those of the list.
template <class Value>
Value choice_at(const Settings& settings, std::string_view key, const ChoiceWords<Value>& choices) {
  return *choice_of(choices, settings.text(key));
}

}  // namespace sluice::cli
