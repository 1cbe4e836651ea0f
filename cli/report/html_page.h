#pragma once
#include <string>

/// Pieces of the self-contained HTML pages that the program writes.
namespace sluice::cli {

/// A whole page in the program's style, with the program's version at its end.
std::string html_page(const std::string& title, const std::string& body);
std::string html_section(const std::string& title, const std::string& content);
std::string html_preformatted(const std::string& text);
/// A table's row; `value` is HTML.
std::string html_row(const std::string& name, const std::string& value);

}  // namespace sluice::cli
