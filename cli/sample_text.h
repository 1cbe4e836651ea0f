#pragma once
#include <string>

#include "cli/config.h"
#include "data/tokenizer.h"
#include "layers/graph.h"
#include "parallel/checkpoint.h"

namespace sluice::cli {

/// A piece of text that the model of a checkpoint makes up, for the report. Its bytes may be no UTF-8.
std::string sample_text(const parallel::Checkpoint& checkpoint, const layers::Graph& graph, const data::Tokenizer& tokenizer,
                        const Settings& settings);

}  // namespace sluice::cli
