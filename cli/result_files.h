#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cli/config.h"

/// Files that a command writes because a flag or a key names them.
namespace sluice::cli {

/// Each with the flag or key that names it. No name is no file, and "-" is the standard output of --json.
using NamedFiles = std::vector<std::pair<std::string, std::string>>;

struct FilesRead {
  NamedFiles named{};           ///< folders among them, and what is not there
  bool pages_are_data = false;  ///< HTML in those folders is read
};

/// Throws unless a file can be written under this name later; leaves nothing behind.
/// Errors  ResourceError naming the flag or key, the file and the cure.
void require_writable(const std::string& subject, const std::string& file);

/// Throws where writing a result would destroy another one, a file that the command reads or that its standard streams go to, or one of a
/// checkpoint or of the folder of a training; where it would lie in a folder that is read, under a name that may be one of data; and for
/// "-" where it is not that of --json.
/// Errors  UsageError naming both.
void require_harmless(const NamedFiles& results, const FilesRead& read);

/// What a command with these settings reads. `config`  file or name of a config; empty where there is none.
FilesRead files_read(const std::string& config, const Settings& settings);

}  // namespace sluice::cli
