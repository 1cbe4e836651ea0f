#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/config.h"
#include "parallel/checkpoint.h"

/// A training that begins with what another one left.
namespace sluice::cli {

/// What --resume names; nothing to start anew. The root of `ranks`, which are null for one process, finds it for all.
std::optional<parallel::Checkpoint> checkpoint_to_resume(const Arguments& arguments, const Settings& settings, parallel::Group* ranks);

/// What --init names, whose weights the training begins with; nothing to draw them.
std::optional<parallel::Checkpoint> checkpoint_to_begin_with(const Arguments& arguments, parallel::Group* ranks);

/// Gives a continued training what of the checkpoint's pipeline decides the bits: its fold blocks, and the number of its micro-batches where
/// the settings leave it open. Warns where other ones were asked for.
void keep_what_decides_bits(const parallel::Checkpoint& checkpoint, Settings& settings);

/// The tokenizer of a model whose weights a training begins with, where its config names the same one: embeddings mean the pieces of the
/// tokenizer that they were trained with. Else empty.
std::string tokenizer_to_keep(const parallel::Checkpoint& model, const Settings& settings);

/// What of the settings says how a transformer computes with its weights, whatever their shapes, and is not as the weights were trained: in
/// words, a line each.
std::vector<std::string> changes_of_use(const parallel::Checkpoint& model, const Settings& now);

/// A continued training gives the bits of an uninterrupted one only when nothing but the pipeline, the threads that load data, the
/// output, when is evaluated and the end changed: what else did, in words, a line each.
std::vector<std::string> changes_of_answer(const Settings& before, const Settings& now);

/// The settings that decide the bits of a training, as text, a line each.
std::vector<std::string> answer_lines(const Settings& settings);

}  // namespace sluice::cli
