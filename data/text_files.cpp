#include "data/text_files.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/file/byte_order_mark.h"
#include "core/file/file.h"
#include "core/utf8.h"
#include "data/html.h"
#include "data/readable_path.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 7> kExtensions{".txt", ".text", ".md", ".markdown", ".rst", ".html", ".htm"};

bool is_text_name(const fs::path& path) { return std::find(kExtensions.begin(), kExtensions.end(), ending_of(path)) != kExtensions.end(); }

bool is_html_name(const fs::path& path) { return ending_of(path) == ".html" || ending_of(path) == ".htm"; }

std::vector<fs::path> text_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  visit_files_below(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && is_text_name(entry.path())) files.push_back(entry.path());
  });
  std::sort(files.begin(), files.end());
  return files;
}

/// The encoding that a byte order mark names; null for UTF-8 and what has none.
const char* marked_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  return text.starts_with("\xFF\xFE"sv) || text.starts_with("\xFE\xFF"sv) ? "UTF-16" : nullptr;
}

void check_is_text(const std::string& path, std::string_view text) {
  const bool packed = text.starts_with("\x1f\x8b");
  require<DataError>(!packed, path, ": needs plain text, but this is a gzip file; unpack it first: gunzip ", path);
  if (const char* encoding = marked_encoding(text))
    throw DataError(join(path, ": needs UTF-8, but its first bytes say ", encoding, "; convert the file: iconv -f ", encoding, " -t UTF-8 ",
                         path, " > converted.txt"));
  // Before other invalid bytes: text in units of two bytes has both, and only its zeros tell what it is.
  const size_t nul = text.find('\0');
  require<DataError>(nul == std::string_view::npos, path, ": byte ", nul,
                     " is NUL, so this is not plain UTF-8 text; if it is UTF-16, convert it: iconv -f UTF-16 -t UTF-8 ", path,
                     " > converted.txt");
  const size_t invalid = first_invalid_utf8(text);
  require<DataError>(invalid == std::string_view::npos, path, ": byte ", invalid,
                     " is not valid UTF-8; convert the file: iconv -f ISO-8859-1 -t UTF-8 ", path,
                     " > converted.txt (-f: its real encoding)");
}

/// CRLF and CR become LF, in place.
void normalise_line_ends(std::string& text) {
  size_t end = text.find('\r');
  if (end == std::string::npos) return;
  for (size_t i = end; i < text.size(); ++i) {
    const bool is_pair = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!is_pair) text[end++] = text[i] == '\r' ? '\n' : text[i];
  }
  text.resize(end);
}

TextFile read_text(const fs::path& path) {
  TextFile file{path.string(), read_file(path)};
  check_is_text(file.path, file.text);
  file.text.erase(0, file.text.size() - without_byte_order_mark(file.text).size());  // no copy of a long text
  if (is_html_name(path)) file.text = html_to_text(file.text);
  normalise_line_ends(file.text);
  return file;
}

}  // namespace

std::vector<TextFile> find_text(const std::string& path) {
  const bool is_folder = is_folder_readably(path);
  std::vector<TextFile> texts;
  for (const auto& file : is_folder ? text_files_below(path) : std::vector{fs::path(path)}) {
    TextFile text = read_text(file);
    if (!text.text.empty()) texts.push_back(std::move(text));
  }
  require<DataError>(!texts.empty(), "corpus ", path, ": there is no text in it",
                     is_folder ? "; files that end in .txt .text .md .markdown .rst .html .htm are read" : "");
  return texts;
}

}  // namespace sluice::data
