#include "data/parallel/text_pair_files.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/file/byte_order_mark.h"
#include "core/file/file.h"
#include "data/readable_path.h"

namespace sluice::data {

namespace {

void check_is_line_text(const std::string& name, std::string_view text) {
  require<DataError>(!text.starts_with("\x1f\x8b"), name, ": needs plain text, but this is a gzip file; unpack it first: gunzip ", name);
  require<DataError>(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"), name,
                     ": needs UTF-8, but its first bytes say UTF-16; convert the file: iconv -f UTF-16 -t UTF-8 ", name,
                     " > converted.txt");
  const size_t nul = text.find('\0');
  require<DataError>(nul == std::string_view::npos, name, ": byte ", nul, " is NUL, so this is not plain UTF-8 text; give a text file");
}

/// The lines of a text, without their ends. A line end at the end of the text begins no other line. A CR alone is one where the text has no LF,
/// as old systems wrote it; else it is a character that some corpora have within a sentence.
std::vector<std::string_view> lines_of(const std::string& name, std::string_view text) {
  check_is_line_text(name, text);
  text = without_byte_order_mark(text);
  const char line_end = text.find('\n') == std::string_view::npos ? '\r' : '\n';
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find(line_end);
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::vector<TextPair> parse_tsv_pairs(const std::string& name, std::string_view text) {
  std::vector<TextPair> pairs;
  size_t number = 0;
  for (const std::string_view line : lines_of(name, text)) {
    ++number;
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    const bool is_pair = tab != std::string_view::npos && line.find('\t', tab + 1) == std::string_view::npos;
    require<DataError>(
        is_pair, name, ": line ", number, " needs source<TAB>target, got ",
        tab == std::string_view::npos ? "no tab; put one between source and target" : "more than one tab; cut the columns: cut -f1,2");
    pairs.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return pairs;
}

ParallelText read_tsv_pairs(const std::filesystem::path& path, const std::string& source_language, const std::string& target_language) {
  return {source_language, target_language, parse_tsv_pairs(path.string(), read_file(path))};
}

std::vector<std::filesystem::path> tsv_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : entries_of(folder))
    if (!is_hidden(entry.path()) && ending_of(entry.path()) == ".tsv") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<ParallelText> read_tsv_folder(const std::filesystem::path& folder) {
  const auto files = tsv_files_in(folder);
  std::vector<ParallelText> texts;
  for (const auto& file : files) {
    const std::string name = file.stem().string();
    const size_t dash = name.find('-');
    const bool is_direction =
        dash != std::string::npos && dash > 0 && dash + 1 < name.size() && name.find('-', dash + 1) == std::string::npos;
    require<DataError>(is_direction, file.string(),
                       ": needs a name SOURCE-TARGET.tsv that tells its languages, such as en-de.tsv; rename it");
    const std::string source = name.substr(0, dash), target = name.substr(dash + 1);
    require<DataError>(source != target, file.string(), ": needs two languages in its name, got ", source, " for both; rename it, such as ",
                       source, "-", target, "2.tsv where the two are kinds of one language");
    texts.push_back(read_tsv_pairs(file, source, target));
  }
  require<DataError>(!texts.empty(), "corpus ", folder.string(), ": needs files SOURCE-TARGET.tsv, such as en-de.tsv, got none");
  return texts;
}

ParallelText read_moses_pairs(const std::filesystem::path& stem, const std::string& source_language, const std::string& target_language) {
  const std::string source_name = stem.string() + "." + source_language, target_name = stem.string() + "." + target_language;
  const std::string source_text = read_file(source_name), target_text = read_file(target_name);
  const auto sources = lines_of(source_name, source_text), targets = lines_of(target_name, target_text);
  require<DataError>(sources.size() == targets.size(), stem.string(), ": needs equal numbers of lines, got ", sources.size(), " in ",
                     source_name, " and ", targets.size(), " in ", target_name, "; fetch both files of the corpus again");
  ParallelText text{source_language, target_language, {}};
  text.pairs.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) text.pairs.push_back({std::string(sources[i]), std::string(targets[i])});
  return text;
}

}  // namespace sluice::data
