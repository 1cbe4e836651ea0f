#pragma once
#include <string>

#include "cli/config.h"
#include "data/tokenizer.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// A piece of text that the trained model makes up, for the report; bytes that are no UTF-8 are replaced.
std::string sample_text(const parallel::Trainer& trainer, const data::Tokenizer& tokenizer, const Settings& settings);

}  // namespace sluice::cli
