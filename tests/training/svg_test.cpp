#include "training/report/svg.h"

#include <gtest/gtest.h>

namespace sluice::training {
namespace {

TEST(Svg, TextIsEscaped) { EXPECT_EQ(xml_text("<a & \"b\">\x01"), "&lt;a &amp; &quot;b&quot;&gt;"); }

TEST(Svg, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(xml_text("\xe2\x96\x81<\xff\xc3"), "\xe2\x96\x81&lt;\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Svg::text_width("\xe2\x96\x81\xc3\xa4", 10), Svg::text_width("ab", 10));
}

TEST(Svg, CharactersThatXmlHasNoPlaceForAreReplaced) {
  EXPECT_EQ(xml_text("a\xef\xbf\xbe|\xef\xbf\xbf|\xef\xbf\xbd|\x01\xc3\xa9"), "a\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xc3\xa9");
}

}  // namespace
}  // namespace sluice::training
