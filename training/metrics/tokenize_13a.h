#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sluice::training {

/// The words and punctuation marks of a line, as NIST's mteval-v13a.pl and sacreBLEU's "13a" cut them: XML entities are read, ASCII symbols
/// stand alone, and so do full stops and commas not between digits, and dashes after a digit.
/// Source  Post 2018, arXiv:1804.08771.
std::vector<std::string> tokenize_13a(std::string_view line);

}  // namespace sluice::training
