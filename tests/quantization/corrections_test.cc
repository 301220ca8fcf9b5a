#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

TEST(Corrections, ComeBackFromAFile) {
  namespace fs = std::filesystem;
  fs::path file = fs::path(testing::TempDir()) / "seqto_corrections_test.npz";
  SchemeCorrections all;
  Corrections& wanted = all[Scheme::kInt8Weights];
  wanted.rounding["/a/Conv"] = {Tensor::from(DataType::kInt8, {2, 2}, std::vector<int8_t>{1, -2, 3, -4}),
                                {0.5f, 2},
                                {3},
                                {1.5f, -1},
                                0.25,
                                0.125};
  wanted.rounding["plain"] = {Tensor::from(DataType::kInt16, {1, 1}, std::vector<int16_t>{999}), {1}, {0, 1}, {}, 1, 1};
  wanted.rounding["four"] = {Tensor::from(DataType::kInt4, {3}, std::vector<uint8_t>{0x8f, 0x07}), {1}, {0}, {}, 1, 1};
  wanted.rounding["unsigned"] = {
      Tensor::from(DataType::kUint4, {1, 2}, std::vector<uint8_t>{0xf1}), {1}, {0}, {}, 1, 1};
  wanted.shifts = {{"/a/Conv", {1, 2}}, {"other", {3}}};
  all[Scheme::kInt4Weights].shifts = {{"/a/Conv", {7}}};
  all[Scheme::kInt4Weights].scales["/a/MatMul"] = {
      Tensor::from(DataType::kUint4, {1, 2}, std::vector<uint8_t>{0x2e}), {0.5f, 2}, {7, 9}, {0.625f, 2.5f}, 4, 3};
  const DetailedScheme detailed = parse_detailed_scheme("int8+method=percentile:99.99+per_channel=false");
  all[detailed].shifts = {{"/a/Conv", {9}}};
  save_corrections(all, file);
  SchemeCorrections read = load_corrections(file);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[detailed].shifts, all[detailed].shifts);
  EXPECT_EQ(read[Scheme::kInt4Weights].shifts, all[Scheme::kInt4Weights].shifts);
  const RescaledLayer& scales = read[Scheme::kInt4Weights].scales.at("/a/MatMul");
  const RescaledLayer& saved = all[Scheme::kInt4Weights].scales.at("/a/MatMul");
  EXPECT_TRUE(scales.codes.equals(saved.codes));
  EXPECT_EQ(std::tie(scales.scale, scales.zero_point, scales.scale_before, scales.error_before, scales.error_after),
            std::tie(saved.scale, saved.zero_point, saved.scale_before, saved.error_before, saved.error_after));
  EXPECT_TRUE(read[Scheme::kInt4Weights].rounding.empty());
  const Corrections& found = read[Scheme::kInt8Weights];
  EXPECT_EQ(found.shifts, wanted.shifts);
  ASSERT_EQ(found.rounding.size(), 4u);
  for (const auto& [layer, r] : wanted.rounding) {
    const RoundedLayer& f = found.rounding.at(layer);
    EXPECT_TRUE(f.codes.equals(r.codes));
    EXPECT_EQ(std::tie(f.scale, f.zero_point, f.bias, f.error_nearest, f.error_learned),
              std::tie(r.scale, r.zero_point, r.bias, r.error_nearest, r.error_learned));
  }
  save_corrections({}, file);
  EXPECT_TRUE(load_corrections(file).empty()) << "a study that found none goes on";
  for (const char* name : {"x", "shifts:x", "int9/shifts:x", "int8/x", "int8/rescaled_x", "int8/rescaled_errors:x"}) {
    save_npz(file, std::vector<Initializer>{{name, float_tensor({1}, {1})}});
    EXPECT_THROW(load_corrections(file), Error) << name;
  }
  fs::remove(file);
}

TEST(Corrections, FieldsSayWhatWasFoundForTheLayersOwnScheme) {
  SchemeCorrections found;
  found[Scheme::kInt8Weights].rounding["a"] = {};
  found[Scheme::kInt8Weights].rounding["b"] = {};
  found[Scheme::kInt4Weights].shifts["b"] = {1};
  Plan plan;
  plan.schemes = {{"a", Scheme::kInt8Weights}, {"b", Scheme::kInt4Weights}, {"c", Scheme::kInt8}};
  // Codes of other scales are no codes of its own.
  plan.schemes["d"] = Scheme::kInt8Weights;
  plan.options["d"].symmetric_weights = false;
  found[Scheme::kInt8Weights].rounding["d"] = {};
  const Plan fields = with_fields(found, plan);
  EXPECT_EQ(fields.schemes, plan.schemes);
  ASSERT_EQ(fields.options.size(), 3u);
  EXPECT_EQ(fields.options.at("d"), plan.options.at("d"));
  EXPECT_EQ(fields.options.at("a").learned_rounding, true);
  EXPECT_FALSE(fields.options.at("a").bias_correction);
  EXPECT_FALSE(fields.options.at("b").learned_rounding);
  EXPECT_EQ(fields.options.at("b").bias_correction, true);
}

}  // namespace
}  // namespace seqto
