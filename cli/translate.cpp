#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>

#include "cli/build.h"
#include "cli/choice_words.h"
#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/list_text.h"
#include "cli/messages.h"
#include "cli/trained_model.h"
#include "cli/translation.h"
#include "core/suggestion.h"

namespace sluice::cli {

namespace {

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t") == line.npos; }

/// A line for a line: what ends one within a translation, as catalogues have it in their messages, is a space.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char byte) { return byte == '\n' || byte == '\r'; }, ' ');
  return text;
}

/// Translates lines and prints them in order. A blank line stays blank. Lines before a bad one are translated all the same.
void translate_lines(TextTranslator& model, const std::vector<std::string>& lines, size_t first, const std::string& from,
                     const std::string& to) {
  std::vector<training::Translator::Sentence> sentences;
  std::vector<size_t> places;  // of the sentences
  std::exception_ptr bad;
  size_t good = 0;  // lines before it
  try {
    for (; good < lines.size(); ++good) {
      if (is_blank(lines[good])) continue;
      sentences.push_back(model.sentence(lines[good], from, to, fmt::format("standard input, line {}", first + good)));
      places.push_back(good);
    }
  } catch (const DataError&) {
    bad = std::current_exception();
  }
  size_t printed = 0;
  const auto print_until = [&](size_t line) {
    for (; printed < line; ++printed) fmt::print("\n");
  };
  model.translate(sentences, [&](size_t number, const std::string& text) {
    print_until(places[number]);
    fmt::print("{}\n", in_one_line(text));
    ++printed;
    std::fflush(stdout);
  });
  print_until(good);
  flush_result();
  if (bad) std::rethrow_exception(bad);
}

/// Of a folder only the names of its files could tell, which may be gone.
bool is_surely_untaught(const Settings& settings, const std::string& from, const std::string& to) {
  const std::filesystem::path path = settings.text("data.path"), ending = path.extension();
  const std::string& source = settings.text("data.source_language");
  std::error_code ignored;
  const bool is_stem = std::filesystem::exists(path.string() + "." + source, ignored);
  if (!is_stem && ending != ".tsv" && ending != ".mo" && ending != ".po") return false;
  const auto languages = settings.texts("data.languages");
  const auto directions = choice_at(settings, "data.directions", kDirectionWords);
  const auto has = [&](const std::string& language) { return std::ranges::count(languages, language) > 0; };
  const bool forward = directions != data::Directions::backward && from == source && has(to),
             backward = directions != data::Directions::forward && to == source && has(from);
  return !forward && !backward;
}

/// Both known to the model.
void check_direction(const Settings& settings, const std::string& from, const std::string& to) {
  require(from != to, "--from: needs another language than --to, got ", to, " for both; name the language of the lines");
  if (is_surely_untaught(settings, from, to))
    warn(
        fmt::format("the model was not trained to translate from {} to {} (data.source_language = {}, data.languages = {}, "
                    "data.directions = {}): it can only guess",
                    from, to, settings.text("data.source_language"), list_text(settings.texts("data.languages"), ", "),
                    settings.text("data.directions")));
}

int translate_input(TextTranslator& model, const std::string& from, const std::string& to) {
  LineReader reader(STDIN_FILENO);
  const auto began = std::chrono::steady_clock::now();
  size_t lines = 0;
  for (auto next = reader.next(256); !next.empty(); next = reader.next(256)) {
    translate_lines(model, next, lines + 1, from, to);
    lines += next.size();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  tell(stderr, fmt::format("{} lines in {:.2f} s, {:.1f} ms a line, {} turns of the decoder\n", lines, seconds,
                           lines > 0 ? 1e3 * seconds / static_cast<double>(lines) : 0, model.translator().turns()));
  return 0;
}

AfterReading translate(const parallel::Checkpoint& checkpoint, const Arguments& arguments) {
  const TranslationSearch search{.beams = arguments.integer("--beams", 4, 1, 1000),
                                 .length_penalty = arguments.number("--length-penalty", 0.6, 0, 100),
                                 .sentences = arguments.integer("--sentences", 8, 1, 10000)};
  const Settings settings = settings_of(checkpoint, arguments.list("--set"));
  const auto model = std::make_shared<TextTranslator>(checkpoint, settings, search, build_devices(settings));
  const auto& languages = model->tokenizer().languages();
  const std::string to = arguments.text("--to"), from = arguments.text("--from", settings.text("data.source_language"));
  require(!to.empty(), "--to: needs a language of the model, got none; known are ", list_text(languages, ", "));
  for (const auto& [flag, language] : {std::pair("--to", to), std::pair("--from", from)})
    require(std::ranges::count(languages, language) > 0, flag, ": needs a language of the model, got '", language, "'",
            suggestion(language, languages));
  check_direction(settings, from, to);
  return [model, from, to] { return translate_input(*model, from, to); };
}

}  // namespace

int run_translate(const Arguments& arguments) {
  return with_checkpoint(arguments.argument, parallel::Wanted::weights,
                         [&](const parallel::Checkpoint& checkpoint) { return translate(checkpoint, arguments); });
}

}  // namespace sluice::cli
