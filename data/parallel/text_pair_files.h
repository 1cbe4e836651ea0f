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

/// The texts of a folder: of each file SOURCE-TARGET.tsv in it, such as en-pt_BR.tsv, one, in the order of their names.
/// Errors  DataError for a folder without such a file or one that cannot be read, for a file named after one language twice, and as above.
std::vector<ParallelText> read_tsv_folder(const std::filesystem::path& folder);

/// A corpus in the layout of Moses: line i of `STEM.SOURCE` is translated by line i of `STEM.TARGET`, the endings being the languages.
/// Errors  DataError as for tab-separated text, and when the numbers of lines differ.
ParallelText read_moses_pairs(const std::filesystem::path& stem, const std::string& source_language, const std::string& target_language);

}  // namespace sluice::data
