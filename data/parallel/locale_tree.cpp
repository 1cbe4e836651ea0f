#include "data/parallel/locale_tree.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/error.h"
#include "core/file/file.h"
#include "core/name_pattern.h"
#include "data/parallel/gettext.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    throw DataError(join("locales ", folder.string(), ": cannot read the folder: ", error.what()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_english(std::string_view language) { return language == "en" || language.starts_with("en_") || language.starts_with("en@"); }

bool matches(const std::string& domain, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches_pattern(pattern, domain); });
}

/// The catalogues of a language that match, each file once.
std::vector<fs::path> catalogues_of(const fs::path& folder, const std::vector<std::string>& domains) {
  std::error_code ignored;
  const fs::path messages = folder / "LC_MESSAGES";
  if (!fs::is_directory(messages, ignored)) return {};
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  for (const auto& path : sorted_entries(messages)) {
    const bool is_wanted = path.extension() == ".mo" && matches(path.stem().string(), domains) && fs::is_regular_file(path, ignored);
    if (is_wanted && seen.insert(fs::canonical(path, ignored)).second) files.push_back(path);
  }
  return files;
}

std::vector<std::string> languages_below(const fs::path& root, const std::vector<std::string>& wanted) {
  if (!wanted.empty()) {
    const std::set<std::string> sorted(wanted.begin(), wanted.end());
    return {sorted.begin(), sorted.end()};
  }
  std::vector<std::string> languages;
  for (const auto& path : sorted_entries(root))
    if (!is_english(path.filename().string())) languages.push_back(path.filename().string());
  return languages;
}

/// The first of the catalogues that could not be read, and why.
std::string left_out(const std::vector<std::string>& skipped) {
  constexpr size_t kMostShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(skipped.size(), kMostShown); ++i) text += join(i == 0 ? "; left out: " : "; ", skipped[i]);
  if (skipped.size() > kMostShown) text += join(" and ", skipped.size() - kMostShown, " more");
  return text;
}

}  // namespace

ParallelText read_catalogue(const fs::path& path, const std::string& source_language, const std::string& target_language) {
  const auto parse = path.extension() == ".mo" ? parse_mo : parse_po;
  return {source_language, target_language, parse(path.string(), read_file(path))};
}

LocaleTree read_locale_tree(const fs::path& root, const LocaleTreeOptions& options) {
  LocaleTree tree;
  for (const auto& language : languages_below(root, options.languages)) {
    ParallelText text{"en", language, {}};
    for (const auto& path : catalogues_of(root / language, options.domains)) try {
        auto pairs = read_catalogue(path, text.source_language, language).pairs;
        std::move(pairs.begin(), pairs.end(), std::back_inserter(text.pairs));
      } catch (const DataError& error) {
        tree.skipped.emplace_back(error.what());
      }
    require<DataError>(
        options.languages.empty() || !text.pairs.empty(), "locales ", root.string(), ": language ", language,
        " has no catalogue that matches and can be read; leave it out, or install its catalogues (apt-get install iso-codes)",
        left_out(tree.skipped));
    if (!text.pairs.empty()) tree.texts.push_back(std::move(text));
  }
  require<DataError>(!tree.texts.empty(), "locales ", root.string(),
                     ": needs LANGUAGE/LC_MESSAGES/DOMAIN.mo, got no catalogue that matches and can be read; install some (apt-get install "
                     "iso-codes)",
                     left_out(tree.skipped));
  return tree;
}

}  // namespace sluice::data
