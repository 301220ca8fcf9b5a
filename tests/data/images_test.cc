// Decoding, resampling and values against Pillow and numpy; the answers come from make_golden.py.
#include <gtest/gtest.h>

#include "base/files.h"
#include "data/pictures.h"
#include "data/preprocess.h"
#include "data/resize.h"

namespace seqto::internal {
namespace {

using Filter = Preprocess::Filter;

TEST(DecodeImage, GivesPillowsPixels) {
  const struct {
    const char* name;
    int width, height;
    const char* digest;
  } kCases[] = {
      {"bits1.png", 19, 13, "273045dec28f865f"},         {"bits16.png", 19, 13, "ab634f6250baf1c2"},
      {"cmyk.jpg", 19, 13, "45a488df684085f4"},          {"grey.jpg", 19, 13, "40a4bf9df1d80754"},
      {"grey.png", 19, 13, "eb6ddbd8cfa62f0c"},          {"grey_alpha.png", 19, 13, "41e9fa53ea2c040d"},
      {"interlaced.png", 19, 13, "ab634f6250baf1c2"},    {"palette.png", 19, 13, "8ef0195ceea73248"},
      {"palette_clear.png", 19, 13, "8ef0195ceea73248"}, {"progressive.jpg", 19, 13, "0bf4f46d7fb4c0de"},
      {"rgb.jpg", 19, 13, "0bf4f46d7fb4c0de"},           {"rgb.png", 19, 13, "ab634f6250baf1c2"},
      {"rgba.png", 19, 13, "ab634f6250baf1c2"},
  };
  for (const auto& [name, width, height, expected] : kCases) {
    const Image image = decode_image(read_file(golden(name)), name);
    EXPECT_EQ(image.width, width) << name;
    EXPECT_EQ(image.height, height) << name;
    EXPECT_EQ(digest(image), expected) << name;
  }
  EXPECT_EQ(digest(decode_image(read_file(golden("rgb.png")), "rgb.png")), digest(picture(19, 13)));
}

// Pillow clips 16-bit grey at 255, so that nearly all of it is white; here it is the high byte, as for colours.
TEST(DecodeImage, SixteenBitGreyIsItsHighByte) {
  const Image grey = decode_image(read_file(golden("grey_bits16.png")), "grey");
  const Image expected = picture(19, 13);
  for (size_t i = 0; i < grey.rgb.size(); ++i) ASSERT_EQ(grey.rgb[i], expected.rgb[i / 3 * 3]) << i;
}

TEST(DecodeImage, DamageIsAnErrorThatNamesTheFile) {
  for (const char* name : {"rgb.png", "rgb.jpg", "cmyk.jpg", "interlaced.png"}) {
    const std::string whole = read_file(golden(name));
    for (const size_t size : {size_t{0}, size_t{1}, size_t{9}, size_t{30}, whole.size() / 2}) {
      const std::string words = error_of([&] { decode_image(whole.substr(0, size), "folder/a.img"); });
      EXPECT_PRED2(says, words, "[data] folder/a.img: ") << name << " " << size;
    }
  }
  const std::string cut = read_file(golden("rgb.jpg")).substr(0, 30);
  EXPECT_PRED2(says, error_of([&] { decode_image(cut, "a.jpg"); }), "cannot be decoded: its header tells no size");
  EXPECT_PRED2(says, error_of([] { decode_image("GIF89a", "a.gif"); }), "neither JPEG nor PNG");
  std::string huge = read_file(golden("rgb.jpg"));
  const size_t size_at = huge.find("\xff\xc0") + 5;
  for (size_t i = 0; i < 4; ++i) huge[size_at + i] = '\x7f';
  EXPECT_PRED2(says, error_of([&] { decode_image(huge, "huge.jpg"); }), "32639x32639 is beyond");
}

TEST(Resize, GivesPillowsPixels) {
  const struct {
    int width, height, to_width, to_height;
    Filter filter;
    const char* digest;
  } kCases[] = {
      {19, 13, 8, 8, Filter::kNearest, "37986db197173490"},    {19, 13, 8, 8, Filter::kBox, "185dd13a2f5e62e4"},
      {19, 13, 8, 8, Filter::kBilinear, "de657158788bfba1"},   {19, 13, 8, 8, Filter::kBicubic, "ec12141cfe7e3dff"},
      {19, 13, 8, 8, Filter::kLanczos, "deac148b771abeca"},    {13, 40, 10, 9, Filter::kNearest, "79f3acc75783addf"},
      {13, 40, 10, 9, Filter::kBox, "10656000b3f048bb"},       {13, 40, 10, 9, Filter::kBilinear, "edfea93aaaae1f0b"},
      {13, 40, 10, 9, Filter::kBicubic, "21d0c82a31ccad72"},   {13, 40, 10, 9, Filter::kLanczos, "c4ee2cd78b12dc29"},
      {5, 4, 17, 23, Filter::kNearest, "6e5ff5472e140e39"},    {5, 4, 17, 23, Filter::kBox, "a2cea0a2116a6885"},
      {5, 4, 17, 23, Filter::kBilinear, "fcb785bf6521d4c7"},   {5, 4, 17, 23, Filter::kBicubic, "f3b9f44dec92089c"},
      {5, 4, 17, 23, Filter::kLanczos, "2aece0c184c1411f"},    {64, 48, 64, 20, Filter::kNearest, "16c54d72baf512c1"},
      {64, 48, 64, 20, Filter::kBox, "7d2f1660528cb664"},      {64, 48, 64, 20, Filter::kBilinear, "8dd0e74565222d12"},
      {64, 48, 64, 20, Filter::kBicubic, "db0752a26cffbd59"},  {64, 48, 64, 20, Filter::kLanczos, "bf7112bb26e2850e"},
      {64, 48, 13, 48, Filter::kNearest, "9147f9723f4dd978"},  {64, 48, 13, 48, Filter::kBox, "90473e0ae86bb8e1"},
      {64, 48, 13, 48, Filter::kBilinear, "1c63b1d373d566a7"}, {64, 48, 13, 48, Filter::kBicubic, "1ff63f9dc08de921"},
      {64, 48, 13, 48, Filter::kLanczos, "e408b7017d379ca3"},  {1, 1, 3, 2, Filter::kNearest, "e4db3bfab78ac8fc"},
      {1, 1, 3, 2, Filter::kBox, "e4db3bfab78ac8fc"},          {1, 1, 3, 2, Filter::kBilinear, "e4db3bfab78ac8fc"},
      {1, 1, 3, 2, Filter::kBicubic, "e4db3bfab78ac8fc"},      {1, 1, 3, 2, Filter::kLanczos, "e4db3bfab78ac8fc"},
      {7, 5, 1, 1, Filter::kNearest, "592dde55c54e9ab9"},      {7, 5, 1, 1, Filter::kBox, "3db1a62c5000ac22"},
      {7, 5, 1, 1, Filter::kBilinear, "001195e6843a4ec3"},     {7, 5, 1, 1, Filter::kBicubic, "7c46c53677db7178"},
      {7, 5, 1, 1, Filter::kLanczos, "7c46c53677db7178"},      {100, 90, 33, 31, Filter::kNearest, "7e38616f26decc9f"},
      {100, 90, 33, 31, Filter::kBox, "ca6be9db74f26698"},     {100, 90, 33, 31, Filter::kBilinear, "7dd135b85b1776d0"},
      {100, 90, 33, 31, Filter::kBicubic, "a40ec3195910d852"}, {100, 90, 33, 31, Filter::kLanczos, "62b89bc96eee5721"},
  };
  for (const auto& [width, height, to_width, to_height, filter, expected] : kCases) {
    const Image image = resize(picture(width, height), to_width, to_height, filter, {0, 0, to_width, to_height});
    EXPECT_EQ(digest(image), expected) << width << "x" << height << " to " << to_width << "x" << to_height << " filter "
                                       << static_cast<int>(filter);
  }
  const Image small = resize(picture(6, 4), 3, 2, Filter::kBilinear, {0, 0, 3, 2});
  EXPECT_EQ(small.rgb, (std::vector<uint8_t>{89, 127, 149, 125, 132, 144, 115, 152, 142,  //
                                             120, 126, 127, 130, 142, 140, 138, 138, 129}));
}

TEST(Resize, AWindowIsThatPartOfTheWhole) {
  for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kLanczos}) {
    for (const auto& [width, height] : {std::pair{33, 21}, std::pair{13, 50}, std::pair{40, 40}}) {
      const Image whole = resize(picture(40, 50), width, height, filter, {0, 0, width, height});
      const Image part = resize(picture(40, 50), width, height, filter, {3, 4, 7, 9});
      for (int y = 0; y < 9; ++y) {
        for (int i = 0; i < 21; ++i) {
          ASSERT_EQ(part.rgb[y * 21 + i], whole.rgb[((y + 4) * width + 3) * 3 + i]) << width << " " << y << " " << i;
        }
      }
    }
  }
}

TEST(Fit, SizesAreRoundedAsPythonDoes) {
  const auto size = [](int width, int height, int short_side) {
    const Image image = fit(picture(width, height), {.short_side = short_side}, "a");
    return std::pair(image.width, image.height);
  };
  EXPECT_EQ(size(5, 4, 2), std::pair(2, 2));  // 2.5 rounds to 2
  EXPECT_EQ(size(7, 4, 2), std::pair(4, 2));  // 3.5 rounds to 4
  EXPECT_EQ(size(4, 7, 2), std::pair(2, 4));
  EXPECT_EQ(size(30, 20, 8), std::pair(12, 8));
  EXPECT_EQ(size(3, 3, 3), std::pair(3, 3));
}

TEST(Fit, CropsFromTheMiddle) {
  const Image image = fit(picture(6, 9), {.crop = 3}, "a");
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.rgb[0], picture(6, 9).rgb[(3 * 6 + 1) * 3]);
  const std::string words = error_of([] { fit(picture(6, 2), {.crop = 3}, "dir/a.png"); });
  EXPECT_PRED2(says, words, "[data] dir/a.png: 6x2");
  EXPECT_PRED2(says, words, "3x3");
  EXPECT_PRED2(says, error_of([] { fit(picture(600, 1), {.short_side = 224}, "a.png"); }), "134400 pixels long");
}

TEST(Preprocess, ValuesAreNumpys) {
  const Preprocess imagenet = load_preprocess("imagenet");
  const std::vector<float> red = value_tables(imagenet)[0];
  EXPECT_EQ(red[0], -0x1.0f177ap+1f);
  EXPECT_EQ(red[1], -0x1.0ce656p+1f);
  EXPECT_EQ(red[77], -0x1.993d92p-1f);
  EXPECT_EQ(red[128], 0x1.2f5e64p-4f);
  EXPECT_EQ(red[255], 0x1.1fdc3ap+1f);
  EXPECT_EQ(load_preprocess("unit").scale, 0x1.010102p-8f);
  EXPECT_EQ(value_tables(load_preprocess("none"))[2][200], 200.0f);
}

TEST(Preprocess, ReadsItsJsonForm) {
  const Folder folder("seqto-preprocess");
  const Preprocess recipe = load_preprocess(folder.write(
      "a.json", R"({"resize":{"width":7,"height":5,"filter":"lanczos"},"crop":4,"channel_order":"bgr","layout":"nhwc",
                    "scale":0.00784313725490196,"mean":[1],"std":[1,2,3]})"));
  EXPECT_EQ(recipe.width, 7);
  EXPECT_EQ(recipe.height, 5);
  EXPECT_EQ(recipe.filter, Filter::kLanczos);
  EXPECT_EQ(recipe.crop, 4);
  EXPECT_TRUE(recipe.bgr);
  EXPECT_TRUE(recipe.nhwc);
  EXPECT_EQ(recipe.mean, (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(recipe.std, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(value_tables(recipe)[0][128], 0x1.0102p-8f);
  EXPECT_EQ(preprocess_to_json(load_preprocess(folder.write("b.json", preprocess_to_json(recipe)))),
            preprocess_to_json(recipe));
  EXPECT_EQ(preprocess_to_json(load_preprocess(folder.write("c.json", "{}"))),
            preprocess_to_json(load_preprocess("unit")));
}

TEST(Preprocess, ErrorsNameTheKey) {
  const Folder folder("seqto-preprocess-errors");
  const auto words = [&](const char* json) { return error_of([&] { load_preprocess(folder.write("p.json", json)); }); };
  EXPECT_PRED2(says, words(R"({"croop":4})"), R"("croop": unknown key)");
  EXPECT_PRED2(says, words(R"({"resize":{"short":4}})"), R"("resize.short": unknown key)");
  EXPECT_PRED2(says, words(R"({"crop":"4"})"), R"("crop": "4" found; an integer)");
  EXPECT_PRED2(says, words(R"({"crop":0})"), "\"crop\": 0");
  EXPECT_PRED2(says, words(R"({"crop":224.5})"), "\"crop\": 224.5");
  EXPECT_PRED2(says, words(R"({"scale":[1]})"), "\"scale\"");
  EXPECT_PRED2(says, words(R"({"scale":1e300})"), "\"scale\"");
  EXPECT_PRED2(says, words(R"({"mean":[1,2]})"), "\"mean\"");
  EXPECT_PRED2(says, words(R"({"mean":[1,2,null]})"), "\"mean\"");
  EXPECT_PRED2(says, words(R"({"std":[1,0,1]})"), "\"std\"");
  EXPECT_PRED2(says, words(R"({"channel_order":"rbg"})"), "\"channel_order\": \"rbg\"");
  EXPECT_PRED2(says, words(R"({"layout":true})"), "\"layout\"");
  EXPECT_PRED2(says, words(R"({"resize":{"filter":"cubic","short_side":3}})"), "\"resize.filter\": \"cubic\"");
  EXPECT_PRED2(says, words(R"({"resize":{"width":3}})"), "\"resize\"");
  EXPECT_PRED2(says, words(R"({"resize":{"width":3,"height":3,"short_side":3}})"), "\"resize\"");
  EXPECT_PRED2(says, words(R"({"resize":256})"), "\"resize");
  EXPECT_PRED2(says, words("[]"), "an object expected");
  EXPECT_PRED2(says, words("{"), "p.json");
  EXPECT_PRED2(says, error_of([] { load_preprocess("imagnet"); }), "imagenet, yolo, unit, none");
}

}  // namespace
}  // namespace seqto::internal
