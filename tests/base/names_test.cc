#include "seqto/error.h"

#include <gtest/gtest.h>

#include <vector>

namespace seqto {
namespace {

const std::vector<std::string> kWords{"tune", "quantize", "incremental", "int8", "int8_dynamic", "kl"};

TEST(Names, NearestIsTheOneOfFewestEdits) {
  EXPECT_EQ(nearest("tnue", kWords), "tune");
  EXPECT_EQ(nearest("quantise", kWords), "quantize");
  EXPECT_EQ(nearest("in8", kWords), "int8");
  EXPECT_EQ(nearest("int8_dynamc", kWords), "int8_dynamic");
}

TEST(Names, ABeginningIsNear) { EXPECT_EQ(nearest("incr", kWords), "incremental"); }

TEST(Names, NothingIsNear) {
  EXPECT_EQ(nearest("xylophone", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest("xy", kWords), "") << "all letters of kl differ";
  EXPECT_EQ(nearest("tune", {}), "");
  EXPECT_EQ(did_you_mean("xylophone", kWords), "");
  EXPECT_EQ(did_you_mean("tun", kWords), "; did you mean 'tune'?");
}

}  // namespace
}  // namespace seqto
