#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/parallel/parallel_text.h"

namespace sluice::data {

/// The entries of a catalogue of messages by GNU gettext: message and translation. The header entry, whose message is empty, is left out.
/// Of an entry with plural forms there are the singular and form 0; its context is dropped. Entries that differ in their context only
/// all stay. All text is well-formed UTF-8.
using CatalogueEntries = std::vector<TextPair>;

/// The entries of a compiled catalogue (.mo) of either byte order; major revisions 0 and 1 are read, and the hash table is not. Strings that
/// differ between systems (<PRIu64>, of minor revision 1) are left out.
/// Errors  DataError naming `name` and the byte for another format or revision, a table or string outside the file or longer in all than
///         it, a string without its NUL, malformed UTF-8, and a charset other than UTF-8 or ASCII.
/// Cost    memory: the strings, at most twice the file, and a TextPair for each entry, whose numbers take 16 bytes of the file, or 8 where both
///         tables are one.
/// Source  the manual of GNU gettext 0.21, "The Format of GNU MO Files".
CatalogueEntries parse_mo(const std::string& name, std::string_view file);

/// The entries of a catalogue in text (.po). Entries that are fuzzy, obsolete (`#~`) or not translated are left out.
/// Errors  DataError naming `name` and the line for what is no such text, malformed UTF-8, and a charset other than UTF-8 or ASCII.
/// Source  the manual of GNU gettext 0.21, "The Format of PO Files".
CatalogueEntries parse_po(const std::string& name, std::string_view file);

/// Refuses a catalogue whose header entry names a charset other than UTF-8 and ASCII. A header without one passes.
/// Errors  DataError.
void check_charset(const std::string& name, std::string_view header);

}  // namespace sluice::data
