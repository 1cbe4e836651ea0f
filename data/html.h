#pragma once
#include <string>
#include <string_view>

namespace sluice::data {

/// The prose of an HTML page: tags, comments and the contents of head, script, style and nav are dropped (a head ends without its end
/// tag, too, and in XHTML an element of these may close itself, as in <script src="x.js"/>), white space is one space, blocks (paragraphs,
/// headings, list items, table rows ...) are separated by an empty line, and entities become characters.
/// It is a reader for corpora, not a validator: any input gives some text, and an entity it does not know stays as it is.
std::string html_to_text(std::string_view page);

}  // namespace sluice::data
