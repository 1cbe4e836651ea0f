#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cli/config.h"

/// Files that a command writes because a flag or a key names them.
namespace sluice::cli {

/// Each with the flag or key that names it. No name is no file, and "-" is the standard output.
using NamedFiles = std::vector<std::pair<std::string, std::string>>;

/// Throws unless a file can be written under this name later; leaves nothing behind.
/// Errors  ResourceError naming the flag or key, the file and the cure.
void require_writable(const std::string& subject, const std::string& file);

/// Throws where writing a result would destroy another one, a file that the command reads, or one of a checkpoint or of the folder of a
/// training. `read` may name what is no file, such as a config that comes with the program.
/// Errors  UsageError naming both.
void require_harmless(const NamedFiles& results, const NamedFiles& read);

/// What a command with these settings reads.
NamedFiles files_read(const std::string& config, const Settings& settings);

}  // namespace sluice::cli
