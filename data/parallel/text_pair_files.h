#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/parallel/parallel_text.h"

namespace sluice::data {

/// The pairs of tab-separated text, `source<TAB>target` a line. Empty lines are skipped, a byte-order mark and the CR of a CRLF are dropped;
/// where there is no LF at all, a CR ends a line.
/// Lines come as they are: malformed UTF-8 and empty sides are for `filter_pairs` to count.
/// Errors  DataError naming `name` and the line for a line without just one tab, for a NUL, and for what is packed or UTF-16.
std::vector<TextPair> parse_tsv_pairs(const std::string& name, std::string_view text);
/// The same of a file.
ParallelText read_tsv_pairs(const std::filesystem::path& path, const std::string& source_language, const std::string& target_language);

/// What is in a folder and ends in .tsv (in small or capital letters), in the order of the names. Hidden files are left out.
/// Errors  DataError for a folder that cannot be read.
std::vector<std::filesystem::path> tsv_files_in(const std::filesystem::path& folder);

/// The texts of a folder: of each of tsv_files_in, which has a name SOURCE-TARGET.tsv, such as en-pt_BR.tsv, one.
/// Errors  DataError for a folder without such a file or one that cannot be read, for a file named after one language twice, for a link to
///         nothing and what else is no file, and as above.
std::vector<ParallelText> read_tsv_folder(const std::filesystem::path& folder);

/// A corpus in the layout of Moses: line i of `STEM.SOURCE` is translated by line i of `STEM.TARGET`, the endings being the languages.
/// Errors  DataError as for tab-separated text, and when the numbers of lines differ.
ParallelText read_moses_pairs(const std::filesystem::path& stem, const std::string& source_language, const std::string& target_language);

}  // namespace sluice::data
