#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cli/config.h"
#include "data/tokenizer.h"
#include "layers/graph.h"
#include "parallel/checkpoint.h"

namespace sluice::cli {

/// The name of the tokenizer's file in a checkpoint; checkpoints of synthetic data have none.
inline constexpr const char* kTokenizerFile = "tokenizer.model";

/// A checkpoint given as "runs/x/step-00000100", or as "runs/x" for the newest whole one there.
/// Errors  DataError when there is none.
parallel::Checkpoint find_checkpoint(const std::filesystem::path& path);

/// The config that a checkpoint was trained with, with --set assignments over it.
Settings settings_of(const parallel::Checkpoint& checkpoint, const std::vector<std::string>& assignments);

/// The bytes of the checkpoint's tokenizer; empty when it has none.
std::string tokenizer_of(const parallel::Checkpoint& checkpoint);

/// Writes a warning to standard error; it is lost where that cannot be written.
void warn(const std::string& text);

}  // namespace sluice::cli
