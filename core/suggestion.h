#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The end of a message about a word that is not known: "; did you mean 'relu'?", or where none is near "; known are gelu, relu, silu".
/// Of many candidates only the first are listed.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace sluice
