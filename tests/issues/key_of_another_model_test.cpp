// Keys that the chosen model, data set or optimizer does not have were taken and shown as if they meant something.
#include <gtest/gtest.h>

#include "cli/config.h"
#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::cli {
namespace {

Settings of_file(const std::string& toml) {
  Settings settings;
  settings.read(toml, "c.toml");
  return settings;
}

TEST(KeyOfAnotherModel, OfAFileIsRefusedWithItsPlaceAndOwner) {
  expect_error<UsageError>([] { of_file("[model]\nname = \"resnet50\"\nheads = 4\n").refuse_foreign(); },
                           {"c.toml:3:1", "model.heads", "transformer-lm", "resnet50"});
  EXPECT_NO_THROW(of_file("[model]\nname = \"resnet50\"\nfilters = 4\n").refuse_foreign());
}

TEST(KeyOfAnotherModel, OfAFileIsLeftOutWithANoteWhenASetMakesItForeign) {
  Settings settings = of_file("[model]\nheads = 4\ndropout = 0.5\n[optimizer]\nbeta1 = 0.5\n");
  settings.set("model.name=resnet50");
  settings.set("optimizer.name=sgd");
  const auto notes = settings.drop_foreign();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("c.toml:2:1: model.heads"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("optimizer.beta1"), std::string::npos) << notes[1];
  EXPECT_EQ(settings.number("model.dropout"), 0.5);
  EXPECT_EQ(settings.integer("model.heads"), Settings().integer("model.heads"));
}

TEST(KeyOfAnotherModel, OfASetIsRefusedInAnyOrder) {
  for (const bool name_first : {true, false}) {
    Settings settings;
    if (name_first) settings.set("model.name=unet");
    settings.set("model.heads=4");
    if (!name_first) settings.set("model.name=unet");
    expect_error<UsageError>([&] { settings.drop_foreign(); }, {"--set model.heads=4", "unet"});
  }
}

TEST(KeyOfAnotherModel, IsNotShown) {
  Settings settings;
  settings.set("model.name=resnet50");
  const std::string shown = settings.toml();
  EXPECT_EQ(shown.find("heads"), std::string::npos);
  EXPECT_NE(shown.find("filters"), std::string::npos);
  EXPECT_EQ(Settings().toml().find("filters"), std::string::npos);
}

TEST(KeyOfAnotherModel, IsInNoConfigOfTheSourceTree) {
  for (const char* name : {"amoebanet-b-18-512",
                           "amoebanet-d-18-208",
                           "amoebanet-d-18-416",
                           "amoebanet-d-18-544",
                           "amoebanet-d-36-544",
                           "amoebanet-d-72-512",
                           "amoebanet-d-cifar10",
                           "amoebanet-d-fashion",
                           "gpt2-124m",
                           "resnet50-fashion",
                           "resnet50",
                           "t-6-8192-16",
                           "t-24-8192-16",
                           "t-12-16384-32",
                           "t-32-16384-32",
                           "t-64-16384-32",
                           "tiny",
                           "transformer-l",
                           "transformer-lm-anarchism",
                           "unet"})
    EXPECT_NO_THROW(read_settings(name, {})) << name;
}

}  // namespace
}  // namespace sluice::cli
