#pragma once
#include <string>
#include <vector>

#include "cli/config.h"
#include "parallel/plan.h"

/// What can be known before a training begins, so that nothing is refused after it.
namespace sluice::cli {

/// Throws unless the devices' budgets hold a step, whose prediction is given, and a validation, and this machine's memory holds all of its
/// CPU devices together. `here`: the devices of this machine.
/// Errors  OutOfMemory naming the device, the bytes and the cure.
void require_memory(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, const Settings& settings,
                    const parallel::Prediction& prediction, const std::vector<int>& here);

/// Throws unless a file can be written under this name later; leaves nothing behind. No name is no file.
/// Errors  ResourceError naming the flag or key, the file and the cure.
void require_writable(const char* subject, const std::string& file);

/// Files of results, each with the flag or key that names it.
using NamedFiles = std::vector<std::pair<const char*, std::string>>;
/// Errors  UsageError when two of them are one file, of which the last to be written would be left. No name and "-" are no files.
void require_different(const NamedFiles& files);

}  // namespace sluice::cli
