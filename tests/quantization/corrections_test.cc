#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "seqto/error.h"
#include "seqto/improvers.h"

namespace seqto {
namespace {

TEST(Corrections, ComeBackFromAFile) {
  namespace fs = std::filesystem;
  fs::path file = fs::path(testing::TempDir()) / "seqto_corrections_test.npz";
  Corrections wanted;
  wanted.rounding["/a/Conv"] = {
      Tensor::from(DataType::kInt8, {2, 2}, std::vector<int8_t>{1, -2, 3, -4}), {0.5f, 2}, 3, {1.5f, -1}, 0.25, 0.125};
  wanted.rounding["plain"] = {Tensor::from(DataType::kInt16, {1, 1}, std::vector<int16_t>{999}), {1}, 0, {}, 1, 1};
  wanted.shifts = {{"/a/Conv", {1, 2}}, {"other", {3}}};
  save_corrections(wanted, file);
  Corrections found = load_corrections(file);
  EXPECT_EQ(found.shifts, wanted.shifts);
  ASSERT_EQ(found.rounding.size(), 2u);
  for (const auto& [layer, r] : wanted.rounding) {
    const RoundedLayer& f = found.rounding.at(layer);
    EXPECT_TRUE(f.codes.equals(r.codes));
    EXPECT_EQ(std::tie(f.scale, f.zero_point, f.bias, f.error_nearest, f.error_learned),
              std::tie(r.scale, r.zero_point, r.bias, r.error_nearest, r.error_learned));
  }
  save_npz(file, std::vector<Initializer>{{"x", float_tensor({1}, {1})}});
  EXPECT_THROW(load_corrections(file), Error);
  fs::remove(file);
}

}  // namespace
}  // namespace seqto
