#pragma once
#include <string>
#include <vector>

namespace sluice::training {

/// @name Pieces of self-contained HTML pages: text is escaped, HTML is taken as it is
/// @{
/// A whole page in one style, with the library's version at its end. `title`  text. `body`  HTML.
std::string html_page(const std::string& title, const std::string& body);
/// `title`  text. `content`  HTML.
std::string html_section(const std::string& title, const std::string& content);
/// Text as it is, line by line.
std::string html_preformatted(const std::string& text);
/// A row of two cells for a table. `name` and `value`  HTML.
std::string html_row(const std::string& name, const std::string& value);
/// A table of text: its columns' names, then rows of a name and numbers.
std::string html_table(const std::vector<std::vector<std::string>>& rows);
/// @}

}  // namespace sluice::training
