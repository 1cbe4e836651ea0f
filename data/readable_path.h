#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sluice::data {

/// What is at a path that a user named. The functions of std::filesystem throw filesystem_error, which the program takes for a resource
/// that ran out, or, with an error code, say "no" of what they could not look up. These tell what is absent from what cannot be read.
/// Errors  DataError naming the path, the system's reason and the cure, for links that lead in a circle and for what may not be read.

/// False where nothing is. Errors  DataError also for a link to nothing: whoever made it did not mean that nothing is there.
bool exists_readably(const std::filesystem::path& path);

/// False where nothing is, or something else than a folder; a link to a folder is one. Errors  of a path as exists_readably. Of an entry the
/// folder's own list is asked first, and a link to nothing is no folder.
bool is_folder_readably(const std::filesystem::path& path);
bool is_folder_readably(const std::filesystem::directory_entry& entry);

/// All that is in a folder, hidden or not, in no order. Errors  DataError for a missing folder, too.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

/// Calls `visit` for all but folders that is in a folder and the folders below it, in no order. Hidden files and folders are left out.
/// Errors  as entries_of, and DataError for a link to a folder, which is not followed since it may lead in a circle.
void visit_files_below(const std::filesystem::path& folder, const std::function<void(const std::filesystem::directory_entry&)>& visit);

bool is_hidden(const std::filesystem::path& path);

/// ".jpg" of "A.JPG": in small letters, since cameras and old systems write capitals. Empty for a name without a point.
std::string ending_of(const std::filesystem::path& path);

}  // namespace sluice::data
