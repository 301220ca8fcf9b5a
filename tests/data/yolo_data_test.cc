// A data.yaml in the forms that trainers and their users write.
#include <gtest/gtest.h>

#include "base/yaml.h"
#include "data/boxes.h"
#include "data/pictures.h"
#include "seqto/dataset.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

const ValueInfo kImage{.name = "x", .type = DataType::kFloat, .shape = std::vector<Dimension>{{1}, {3}, {16}, {16}}};

class YoloDataTest : public testing::Test {
 protected:
  YoloDataTest() : folder_("seqto-yolo-data") {
    for (const char* image : {"images/train/t.png", "images/val/b.png", "images/val/a.png", "images/more/c.png"}) {
      fs::create_directories((folder_.path / image).parent_path());
      folder_.add("rgb.png", image);
    }
    fs::create_directories(folder_.path / "labels/val");
    folder_.write("labels/val/a.txt", "3 0.5 0.5 1 1\n");
  }

  std::unique_ptr<Dataset> open(const char* yaml, const DatasetOptions& options = {}) const {
    return open_dataset(folder_.write("data.yaml", yaml), std::span(&kImage, 1), options);
  }
  std::string names(const char* yaml) const {
    const auto data = open(yaml);
    std::string result;
    for (int64_t i = 0; i < data->size(); ++i) result += data->read(i).name + " ";
    return result;
  }
  std::string refusal(const char* yaml) const {
    return error_of([&] { open(yaml); });
  }

  Folder folder_;
};

TEST_F(YoloDataTest, TakesTheImagesOfValidation) {
  const char* yaml = "train: images/train\nval: images/val  # checked\ntest:\nnc: 2\nnames:\n  0: cat\n  1: dog\n";
  EXPECT_EQ(names(yaml), "images/val/a.png images/val/b.png ");
  const auto data = open(yaml);
  const auto boxes = *data->read(0).boxes;
  ASSERT_EQ(boxes.size(), 1U);
  // The picture is 19 x 13: a letterbox in 16 x 16 has 16 x 11 of it in the middle, unasked.
  const Box expected{0, 2.0f / 16, 1, 13.0f / 16, 3};
  EXPECT_EQ(boxes[0], expected);
  EXPECT_TRUE(data->read(1).boxes->empty());
  EXPECT_FALSE(data->has_labels());
}

TEST_F(YoloDataTest, FingerprintCoversLabelsAndNotThePlace) {
  const std::string first = open("val: images/val")->fingerprint();
  EXPECT_EQ(open(("path: " + folder_.path.string() + "\nval: images/val").c_str())->fingerprint(), first);
  folder_.write("labels/val/b.txt", "0 0.5 0.5 1 1\n");
  EXPECT_NE(open("val: images/val")->fingerprint(), first);
}

TEST_F(YoloDataTest, FindsTheFolders) {
  EXPECT_EQ(names("val: [images/val, images/more]"), "images/val/a.png images/val/b.png images/more/c.png ");
  EXPECT_EQ(names("val: ''\ntest: ~\ntrain: images/train\n"), "images/train/t.png ");
  EXPECT_EQ(names("val: ../images/more"), "images/more/c.png ");  // as one download site writes it
  EXPECT_EQ(names("path: images\nval: more"), "more/c.png ");
  EXPECT_EQ(names("path: somewhere/else\nval: images/more"), "images/more/c.png ");  // moved: beside the file
  EXPECT_EQ(names("{\"val\": \"images/more\"}"), "images/more/c.png ");
}

TEST_F(YoloDataTest, ReadsLists) {
  folder_.write("val.txt", "./images/val/b.png\r\n\nimages/more/c.png\n");
  EXPECT_EQ(names("val: val.txt"), "images/val/b.png images/more/c.png ");
  folder_.write("val.txt", "./images/val/a.png\n./images/val/z.png\n");
  EXPECT_PRED2(says, refusal("val: val.txt"), "val.txt, line 2: ");
  folder_.write("val.txt", "\n");
  EXPECT_PRED2(says, refusal("val: val.txt"), "no image in");
}

TEST_F(YoloDataTest, WithoutLabelsBoxesAreNotKnown) {
  EXPECT_FALSE(open("val: images/more")->read(0).boxes.has_value());
  EXPECT_EQ(yolo_labels_of("images/x/images/y/z.jpg"), fs::path("images/x/labels/y/z.txt"));
  EXPECT_EQ(yolo_labels_of("pictures/z.jpg"), fs::path("pictures/z.txt"));
}

TEST_F(YoloDataTest, NamesCountTheClasses) {
  const auto classes = [&](const std::string& more) {
    return open(("val: images/val\n" + more).c_str())->read(0).classes;
  };
  EXPECT_EQ(classes("nc: 9\nnames:\n  0: cat\n  1: dog\n"), 2);
  EXPECT_EQ(classes("names: [cat, dog, cow]"), 3);
  EXPECT_EQ(classes("nc: 80"), 80);
  for (const char* none : {"", "nc: many", "nc: -1", "nc: [1]", "names: cat"}) EXPECT_EQ(classes(none), 0) << none;
}

TEST_F(YoloDataTest, LabelsOfOutlinesAndKeypoints) {
  const auto read = [&](const char* line, const std::optional<KeypointForm>& keypoints = {}) {
    return read_yolo(folder_.write("l.txt", line), keypoints).at(0);
  };
  Box outline{0.25f, 0.125f, 0.75f, 1, 4};
  outline.outlines = {{{0.5f, 1}, {0.25f, 0.5f}, {0.75f, 0.125f}}};
  EXPECT_EQ(read("4 0.5 1 0.25 0.5 0.75 0.125"), outline);
  const Box box{0.25f, 0.25f, 0.75f, 0.75f, 4};
  Box posed = box;
  posed.pose.points = {{0.1f, 0.2f, true}};
  EXPECT_EQ(read("4 0.5 0.5 0.5 0.5 0.1 0.2", KeypointForm{1, 2}), posed);
  posed.pose.points.push_back({0.3f, 0.4f, false});
  EXPECT_EQ(read("4 0.5 0.5 0.5 0.5 0.1 0.2 2 0.3 0.4 0", KeypointForm{2, 3}), posed);
  EXPECT_EQ(read("4 0.5 0.5 0.5 0.5", KeypointForm{2, 3}), box);
  EXPECT_PRED2(says, error_of([&] { read("4 0.5 0.5 0.5 0.5 0.1 0.2", KeypointForm{2, 3}); }),
               "line 1: 6 values behind the class found");
  EXPECT_EQ(read("4 0.5 0.5 0.5 0.5 0.1 0.1 2"), box);
  fs::create_directories(folder_.path / "labels/more");
  folder_.write("labels/more/c.txt", "4 0.5 0.5 0.5 0.5 0.1 0.1\n");
  const auto right = [&](const char* yaml) { return (*open(yaml)->read(0).boxes)[0].right; };
  EXPECT_EQ(right("val: images/more\nkpt_shape: [1, 2]"), 0.75f);
  EXPECT_PRED2(says, refusal("val: images/more\nkpt_shape: [0, 3]"), "[0, 3] found; how many keypoints");
  const Pose pose = (*open("val: images/more\nkpt_shape: [1, 2]")->read(0).boxes)[0].pose;  // in the letterbox
  ASSERT_EQ(pose.points.size(), 1U);
  EXPECT_FLOAT_EQ(pose.points[0].x, 0.1f);
  EXPECT_FLOAT_EQ(pose.points[0].y, (2 + 0.1f * 11) / 16);
  EXPECT_EQ(right("val: images/more"), 0.5f);
  folder_.write("labels/more/c.txt", "4 0 0 1 0.5 0.5 1\n");
  const Box placed = (*open("val: images/more")->read(0).boxes)[0];
  EXPECT_EQ(placed.outlines, (std::vector<Outline>{{{0, 2.0f / 16}, {1, (2 + 5.5f) / 16}, {0.5f, 13.0f / 16}}}));
  for (const char* line : {"4 0.5 0.5 0.5", "4 0.5 0.5 0.5 x", "x 0.5 0.5 0.5 0.5", "-1 0.5 0.5 0.5 0.5"})
    EXPECT_PRED2(says, error_of([&] { read(line); }), "l.txt, line 1") << line;
}

TEST_F(YoloDataTest, RefusesWhatItCannotRead) {
  EXPECT_PRED2(says, refusal(""), "no mapping found");
  EXPECT_PRED2(says, refusal("names: [a]"), "none of them found");
  EXPECT_PRED2(says, refusal("val: images/none"), "\"val\": nothing found");
  EXPECT_PRED2(says, refusal("val: images/val/a.png"), "a.png found");
  EXPECT_PRED2(says, refusal("nc: 2\nval: [images/val"), "data.yaml, line 3: did not find");
  EXPECT_PRED2(says, refusal("val: &a images/val\ntest: *a"), "line 2: an alias");
  EXPECT_PRED2(says, refusal("val: a\nval: b"), "line 2: the key 'val' again");
  EXPECT_PRED2(says, refusal("? [a]\n: b"), "a key that is no text");
  EXPECT_PRED2(says, refusal(("val: " + std::string(200, '[') + std::string(200, ']')).c_str()), "100 levels");
  EXPECT_PRED2(says, refusal("val: \"\xff\xfe\""), "line 1");
  EXPECT_THROW(open("val: images/val", {.labels = "labels"}), Error);
}

TEST(ParseYamlTest, AllScalarsAreTexts) {
  const nlohmann::json expected = {{"a", {"1", "yes", "~", ""}}, {"b", {{"c", "x: y\nz"}}}};
  EXPECT_EQ(parse_yaml("a: [1, yes, ~, '']\nb:\n  c: \"x: y\\nz\"\n---\nd: 2\n", "y"), expected);
  EXPECT_TRUE(parse_yaml("# nothing\n", "y").is_null());
}

}  // namespace
}  // namespace seqto::internal
