// Scores lines "hypothesis<TAB>reference[<TAB>reference ...]" from stdin; every line has as many references. Prints a line of JSON for
// each, and one for the corpus, with doubles that read back to the same bits. bench/peers/text_scores.py compares them with sacreBLEU's.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "training/metrics/bleu.h"
#include "training/metrics/chrf.h"

namespace {

using namespace sluice;
using namespace sluice::training;
constexpr auto kPlusPlus = ChrfUnits::characters_and_words;

std::vector<std::string> split_tabs(const std::string& line) {
  std::vector<std::string> fields{""};
  for (const char c : line) c == '\t' ? fields.emplace_back() : fields.back() += c;
  return fields;
}

void print(const BleuScore& bleu, const ChrfScore& chrf, const ChrfScore& chrf_plus_plus) {
  std::cout << nlohmann::json{{"bleu", bleu.score},
                              {"brevity_penalty", bleu.brevity_penalty},
                              {"precisions", bleu.precisions},
                              {"matches", bleu.matches},
                              {"totals", bleu.totals},
                              {"lengths", {bleu.hypothesis_length, bleu.reference_length}},
                              {"chrf", chrf.score},
                              {"chrf++", chrf_plus_plus.score}}
            << "\n";
}

void score_lines() {
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> sets;
  for (std::string line; std::getline(std::cin, line);) {
    const auto fields = split_tabs(line);
    if (hypotheses.empty()) sets.resize(fields.size() - 1);
    require<DataError>(fields.size() == sets.size() + 1 && !sets.empty(),
                       "score_text: needs a hypothesis and as many references on each line, got ", fields.size(), " fields on line ",
                       hypotheses.size() + 1);
    hypotheses.push_back(fields[0]);
    for (size_t i = 0; i < sets.size(); ++i) sets[i].push_back(fields[i + 1]);
    const auto references = std::span(fields).subspan(1);
    print(sentence_bleu(fields[0], references), sentence_chrf(fields[0], references), sentence_chrf(fields[0], references, kPlusPlus));
  }
  if (hypotheses.empty()) return;
  print(corpus_bleu(hypotheses, sets), corpus_chrf(hypotheses, sets), corpus_chrf(hypotheses, sets, kPlusPlus));
}

}  // namespace

int main() {
  try {
    score_lines();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
