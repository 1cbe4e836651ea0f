#pragma once
#include <string>
#include <vector>

/// Pieces of the self-contained HTML pages that the program writes.
namespace sluice::cli {

/// A whole page in the program's style, with the program's version at its end.
std::string html_page(const std::string& title, const std::string& body);
std::string html_section(const std::string& title, const std::string& content);
std::string html_preformatted(const std::string& text);
/// A table's row; `value` is HTML.
std::string html_row(const std::string& name, const std::string& value);
/// A table of text: its columns' names, then rows of a name and numbers.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace sluice::cli
