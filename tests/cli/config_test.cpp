#include "cli/config.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace sluice::cli {
namespace {

/// The text of the error that reading gives.
std::string refusal(const std::string& toml) {
  try {
    Settings().read(toml, "c.toml");
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string set_refusal(const std::string& assignment) {
  try {
    Settings().set(assignment);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Config, UnknownKeyNamesPlaceAndNearestKey) {
  const std::string message = refusal("[train]\nsteps = 3\nbatchs = 4\n");
  EXPECT_TRUE(has(message, "c.toml:3:1")) << message;
  EXPECT_TRUE(has(message, "'train.batch'")) << message;
}

TEST(Config, UnknownTableNamesTheNearestKey) { EXPECT_TRUE(has(refusal("[trian]\nsteps = 3\n"), "'train.steps'")); }

TEST(Config, KeyOfAnotherTableIsNamed) {
  EXPECT_TRUE(has(set_refusal("train.lr=1"), "did you mean 'optimizer.lr'"));
  EXPECT_TRUE(has(set_refusal("optimiser.schedule=cosine"), "did you mean 'optimizer.schedule'"));
  EXPECT_TRUE(has(set_refusal("output.path=x"), "did you mean 'data.path'"));
}

TEST(Config, WrongTypeNamesPlaceWhatIsNeededAndWhatCame) {
  const std::string message = refusal("[train]\nsteps = \"many\"\n");
  EXPECT_TRUE(has(message, "c.toml:2:1: train.steps: needs an integer from 1 to 4294967295")) << message;
  EXPECT_TRUE(has(message, "many")) << message;
}

TEST(Config, BadTomlNamesThePlace) { EXPECT_TRUE(has(refusal("[train]\nsteps = = 3\n"), "c.toml:2:")); }

TEST(Config, DuplicateKeyIsRefused) { EXPECT_NE(refusal("[train]\nsteps = 3\nsteps = 4\n"), ""); }

TEST(Config, SizesThatAreNoSizesAreRefused) {
  for (const char* bad :
       {"train.steps=0", "train.batch=-1", "model.layers=0", "model.dim=0", "optimizer.lr=nan", "optimizer.lr=inf", "optimizer.lr=-1",
        "model.dropout=1", "train.steps=9223372036854775808", "train.steps=1.5", "pipeline.micro_batches=0", "output.keep=0",
        "pipeline.memory=lots", "pipeline.memory=-1", "train.steps=1\nbatch=2", "train.steps", "train.steps=", "model.tied_embeddings=1"})
    EXPECT_NE(set_refusal(bad), "") << bad;
}

TEST(Config, ChoiceThatIsNoneNamesTheNearest) {
  EXPECT_TRUE(has(set_refusal("pipeline.schedule=1fb1"), "did you mean '1f1b'"));
  EXPECT_TRUE(has(set_refusal("pipeline.partition=uniforme"), "did you mean 'uniform'"));
  EXPECT_TRUE(has(set_refusal("model.norm=layer_norm"), "did you mean 'layernorm'"));
  EXPECT_TRUE(has(set_refusal("model.positions=leanred"), "did you mean 'learned'"));
  EXPECT_TRUE(has(set_refusal("model.activation=rleu"), "did you mean 'relu'"));
}

TEST(Config, AutoStandsForANumberThatIsOpenAndSchedulesMayBeFiles) {
  Settings settings;
  settings.set("pipeline.micro_batches=auto");
  EXPECT_EQ(settings.integer("pipeline.micro_batches"), 0);
  settings.set("pipeline.micro_batches=8");
  EXPECT_EQ(settings.integer("pipeline.micro_batches"), 8);
  settings.set("pipeline.schedule=my/order.csv");
  EXPECT_EQ(settings.text("pipeline.schedule"), "my/order.csv");
  EXPECT_TRUE(has(set_refusal("pipeline.micro_batches=many"), "auto or an integer"));
  EXPECT_TRUE(has(set_refusal("pipeline.micro_batches=0"), "auto or an integer"));
}

TEST(Config, SetTakesTextsWithoutQuotesAndLists) {
  Settings settings;
  settings.set("pipeline.devices=cpu:0,cpu:1");
  settings.set("pipeline.partition=[3, 4]");
  settings.set("pipeline.memory=1.5GiB");
  settings.set("pipeline.remat=[\"block0.attention\", \"block1.attention\"]");
  settings.set("optimizer.lr=1");
  EXPECT_EQ(settings.texts("pipeline.devices"), (std::vector<std::string>{"cpu:0", "cpu:1"}));
  EXPECT_EQ(settings.integers("pipeline.partition"), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(settings.integer("pipeline.memory"), int64_t{3} << 29);
  EXPECT_EQ(settings.texts("pipeline.remat").size(), 2u);
  EXPECT_EQ(settings.number("optimizer.lr"), 1.0);
}

/// Such an integer ended the program with exit code 1 and "bad optional access".
TEST(Config, NumbersTakeIntegersThatNoDoubleEqualsAndNameTheirRange) {
  Settings settings;
  settings.set("optimizer.clip=9223372036854775807");
  EXPECT_EQ(settings.number("optimizer.clip"), 0x1p63);
  settings.set("optimizer.lr=9007199254740993");
  EXPECT_EQ(settings.number("optimizer.lr"), 0x1p53);
  EXPECT_TRUE(has(set_refusal("model.dropout=9223372036854775807"), "model.dropout: needs a number from 0 to 0.999, got 9.22"));
}

TEST(Config, PrintedConfigReadsBackToTheSameSettings) {
  Settings settings;
  for (const char* assignment :
       {"data.path=a \"strange\"\\path\ttab", "optimizer.epsilon=1e-12", "optimizer.lr=0.1", "pipeline.partition=[1,2,3]",
        "pipeline.memory=8GiB", "train.seed=9000000000000000000", "model.tied_embeddings=false"})
    settings.set(assignment);
  Settings again;
  again.read(settings.toml(), "printed");
  EXPECT_EQ(again.toml(), settings.toml());
  EXPECT_NE(again.toml(), Settings().toml());
}

TEST(Options, EveryInitialValueIsLegal) {
  Settings settings;
  settings.read(Settings().toml(), "initial");
  EXPECT_EQ(settings.toml(), Settings().toml());
}

TEST(Options, EveryConfigOfTheSourceTreeIsLegal) {
  for (const char* name : {"tiny", "gpt2-124m", "transformer-l", "transformer-lm-anarchism"})
    EXPECT_NO_THROW(read_settings(name, {})) << name;
}

TEST(Options, UnknownConfigNamesTheNearest) {
  try {
    find_config("tinny");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(has(error.what(), "'tiny'")) << error.what();
  }
}

}  // namespace
}  // namespace sluice::cli
