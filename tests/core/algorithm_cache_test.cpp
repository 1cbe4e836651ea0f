#include "core/cuda/algorithm_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/file/file.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using namespace sluice::cublas;

namespace {

constexpr AlgorithmWords kFirst = {1, 0x0123456789abcdef, 0, ~0ull, 5, 6, 7, 8}, kSecond = {2};
const std::string kKey = "NVIDIA H200: a product";

/// Sets a variable of the environment for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST(AlgorithmCache, KeepsAlgorithmsInItsFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "new" / "algorithms.json";
  AlgorithmCache(file).keep(kKey, kFirst);
  EXPECT_EQ(AlgorithmCache(file).find(kKey), kFirst);
  EXPECT_EQ(AlgorithmCache(file).find("another"), std::nullopt);
}

TEST(AlgorithmCache, WritesHexadecimalDigitsByKey) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "algorithms.json";
  AlgorithmCache(file).keep(kKey, kFirst);
  const std::string text = read_file(file);
  EXPECT_NE(text.find("\"NVIDIA H200: a product\": \"00000000000000010123456789abcdef0000000000000000ffffffffffffffff"), std::string::npos)
      << text;
}

TEST(AlgorithmCache, RemembersWithoutWriting) {
  const TemporaryFolder folder;
  AlgorithmCache cache(folder.path() / "algorithms.json");
  cache.remember(kKey, kFirst);
  EXPECT_EQ(cache.find(kKey), kFirst);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(AlgorithmCache, KeepsWhatAnotherProcessWrote) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "algorithms.json";
  AlgorithmCache one(file), other(file);
  one.keep("one", kFirst);
  other.keep("other", kSecond);
  EXPECT_EQ(AlgorithmCache(file).find("one"), kFirst);
  EXPECT_EQ(AlgorithmCache(file).find("other"), kSecond);
}

TEST(AlgorithmCache, TakesADamagedOrForeignFileForAnEmptyOneAndReplacesIt) {
  const std::string digits(128, '0');
  for (const std::string& text : {std::string(), std::string("{\"format\": 1, \"algo"), std::string("[]"), std::string("\xff\x00\x01"),
                                  std::string("{\"format\": \"1\"}"), std::string("{\"format\": 1, \"algorithms\": [1]}"),
                                  "{\"format\": 2, \"algorithms\": {\"" + kKey + "\": \"" + digits + "\"}}",
                                  "{\"format\": 1, \"algorithms\": {\"" + kKey + "\": \"" + digits + "0\"}}",
                                  "{\"format\": 1, \"algorithms\": {\"" + kKey + "\": \"" + digits.substr(1) + "g\"}}",
                                  "{\"format\": 1, \"algorithms\": {\"" + kKey + "\": 7}}"}) {
    const TemporaryFolder folder;
    const auto file = folder.write("algorithms.json", text);
    AlgorithmCache cache(file);
    EXPECT_EQ(cache.find(kKey), std::nullopt) << text;
    cache.keep(kKey, kSecond);
    EXPECT_EQ(AlgorithmCache(file).find(kKey), kSecond) << text;
  }
}

TEST(AlgorithmCache, ServesTheProcessWhereTheFileCannotBeWritten) {
  const TemporaryFolder folder;
  AlgorithmCache cache(folder.write("file", "") / "algorithms.json");
  cache.keep(kKey, kFirst);
  EXPECT_EQ(cache.find(kKey), kFirst);
  AlgorithmCache none({});
  none.keep(kKey, kFirst);
  EXPECT_EQ(none.find(kKey), kFirst);
}

TEST(AlgorithmCache, LiesInTheFirstCacheFolderThatIsSet) {
  const Variable home("HOME", "/home/someone"), caches("XDG_CACHE_HOME", ""), own("SLUICE_CACHE_DIR", "");
  EXPECT_EQ(algorithm_cache_file(kProductsFile), "/home/someone/.cache/sluice/cublas-algorithms.json");
  const Variable set_caches("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(algorithm_cache_file(kProductsFile), "/caches/sluice/cublas-algorithms.json");
  const Variable set_own("SLUICE_CACHE_DIR", "/own");
  EXPECT_EQ(algorithm_cache_file(kProductsFile), "/own/cublas-algorithms.json");
}

TEST(AlgorithmCache, HasADigestOfWhatItKeepsForAKindOfGpu) {
  const TemporaryFolder folder;
  AlgorithmCache cache(folder.path() / "algorithms.json");
  const std::string prefix = key_of({.name = "NVIDIA H200", .driver_version = 13000});
  EXPECT_EQ(prefix, "NVIDIA H200, driver 13000, ");
  cache.keep("NVIDIA A100, driver 13000, a product", kFirst);
  EXPECT_EQ(cache.digest(prefix), "");
  cache.keep(prefix + "a product", kFirst);
  const std::string first = cache.digest(prefix);
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(AlgorithmCache(folder.path() / "algorithms.json").digest(prefix), first);
  cache.keep(prefix + "a product", kSecond);
  EXPECT_NE(cache.digest(prefix), first);
}
