#pragma once
#include <string>
#include <vector>

namespace sluice::data {

/// A document: well-formed UTF-8 without NULs, lines ended by LF.
struct TextFile {
  std::string path;
  std::string text;
};

/// The documents of a corpus: `path` itself, whatever its name ends in, or all files below the folder `path` that end in .txt .text
/// .md .markdown .rst .html .htm (in small or capital letters), in the order of their paths. Hidden files and folders are left out, and so
/// is all that is no regular file. Pages of HTML are turned into prose (html.h). CRLF and CR become LF, a byte-order mark is dropped, empty
/// documents too.
/// Errors  DataError for a path that is missing, unreadable, or neither a file nor a folder; for a link to a folder below `path`; for a
///         corpus without text; for a byte that is not UTF-8, or a NUL, with file, offset and the command that converts.
std::vector<TextFile> find_text(const std::string& path);

}  // namespace sluice::data
