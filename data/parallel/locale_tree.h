#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/parallel/parallel_text.h"

namespace sluice::data {

struct LocaleTreeOptions {
  std::vector<std::string> languages = {};       ///< tags of folders, such as "de" or "pt_BR"; empty means all
  std::vector<std::string> domains = {"iso_*"};  ///< patterns of catalogues, as the shell matches them; the package iso-codes has iso_*
};

/// What was read, and a message for each catalogue that was not: damaged, or of another charset.
struct LocaleTree {
  std::vector<ParallelText> texts;  ///< from English, one of each language, in the order of their tags
  std::vector<std::string> skipped;
};

/// The pairs of one catalogue of gettext, a .po or .mo file. Errors  DataError as `parse_po` and `parse_mo`.
ParallelText read_catalogue(const std::filesystem::path& path, const std::string& source_language, const std::string& target_language);

/// The compiled catalogues below a folder in the layout of gettext, LANGUAGE/LC_MESSAGES/DOMAIN.mo, such as /usr/share/locale. Their
/// messages are taken as English. A catalogue with several names (links) counts once in a language. Languages without a matching catalogue
/// and, when all are read, varieties of English have no text.
/// Errors  DataError for a folder that cannot be read, for one without a matching catalogue, and for a language of the list without one.
LocaleTree read_locale_tree(const std::filesystem::path& root, const LocaleTreeOptions& options = {});

}  // namespace sluice::data
