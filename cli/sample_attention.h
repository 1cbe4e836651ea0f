#pragma once
#include <optional>
#include <vector>

#include "cli/config.h"
#include "cli/report/attention_plot.h"
#include "cli/translation_scores.h"
#include "data/parallel/multilingual_tokenizer.h"
#include "layers/graph.h"
#include "parallel/checkpoint.h"

namespace sluice::cli {

/// What a checkpoint's translation model looks at in the source while it says the reference, for the report: the attention of one decoder
/// layer, as the mean of its heads. Of the examples it is the longest that is still readable, of those that are no
/// copies where there are any; nothing where none is readable.
std::optional<AttentionPlot> sample_attention(const parallel::Checkpoint& checkpoint, const layers::Graph& graph,
                                              const data::MultilingualTokenizer& tokenizer, const std::vector<TranslatedPair>& examples,
                                              const Settings& settings, const std::vector<DevicePtr>& devices);

}  // namespace sluice::cli
