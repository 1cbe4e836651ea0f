// A TOML key of tens of thousands of parts ended the process; what only looks like one has to be taken.
#include <gtest/gtest.h>

#include "cli/config.h"
#include "core/error.h"
#include "core/file/toml_depth.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

std::string dotted(int parts) {
  std::string key = "a";
  for (int i = 1; i < parts; ++i) key += ".a";
  return key;
}

TEST(DeepToml, IsRefusedWithItsLineWhereverTheKeyStands) {
  for (const std::string& toml :
       std::vector<std::string>{join(dotted(17), " = 1"), join("[", dotted(17), "]"), join("[[", dotted(17), "]]"),
                                join("a = {", dotted(17), " = 1}"), join("a = [1, {", dotted(17), " = 1}]"),
                                join("a = \"x\" # \"\n", dotted(40000), " = 1"), join("\"a\"", dotted(17).substr(1), " = 1")}) {
    const std::string line = toml.find('\n') == toml.npos ? "c.toml:3" : "c.toml:4";
    expect_error<UsageError>([&] { check_toml_depth("# one\n'''two'''\n" + toml, "c.toml"); }, {line, "parts"});
  }
}

TEST(DeepToml, IsNotWhatHasDotsInTextsAndComments) {
  const std::string dots(1000, '.');
  for (const std::string& toml : std::vector<std::string>{
           dotted(16) + " = 1", "a = \"" + dots + "\"", "a = '" + dots + "'", "# " + dots,
           "a = \"\"\"\n" + dots + "\n\\\"" + dots + "\"\"\"", "a = '''\n" + dots + "'''",
           "a = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]", "a = \"", "'''", "\"\\", ""})
    EXPECT_NO_THROW(check_toml_depth(toml, "c.toml")) << toml;
}

TEST(DeepToml, OfASetIsRefusedToo) {
  expect_error<UsageError>([] { cli::Settings().set("pipeline.partition=[{" + dotted(40000) + " = 1}]"); },
                           {"pipeline.partition", "parts"});
}

}  // namespace
}  // namespace sluice
