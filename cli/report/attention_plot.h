#pragma once
#include <string>
#include <vector>

namespace sluice::cli {

/// How much each token of one sequence looks at each token of another.
struct AttentionPlot {
  std::string caption;                     ///< of which layer and which sentences
  std::vector<std::string> queries, keys;  ///< tokens: of the rows, of the columns
  std::vector<double> weights;             ///< row by row, each from 0 to 1
};

/// A heat map as inline SVG, from white for 0 to dark blue for the largest weight, below the caption.
std::string html_attention(const AttentionPlot& plot);

}  // namespace sluice::cli
