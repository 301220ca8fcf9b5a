// Targets and boxes of samples: CSV, arrays, COCO's JSON, YOLO's text files.
#include <gtest/gtest.h>

#include "data/boxes.h"
#include "data/labels.h"
#include "data/pictures.h"
#include "seqto/dataset.h"

namespace seqto::internal {
namespace {

const ValueInfo kImage{.name = "x", .type = DataType::kFloat, .shape = std::vector<Dimension>{{1}, {3}, {13}, {19}}};

std::unique_ptr<Dataset> open(const std::filesystem::path& path, const DatasetOptions& options) {
  return open_dataset(path, std::span(&kImage, 1), options);
}

class ImageTruth : public testing::Test {
 protected:
  ImageTruth() : folder_("seqto-targets"), labels_("seqto-targets-labels") {
    for (const char* name : {"a.png", "b.png", "c.png"}) folder_.add("rgb.png", name);
  }
  Folder folder_, labels_;
};

TEST_F(ImageTruth, TargetsStandBesideLabels) {
  const auto both = labels_.write("l.csv", "file,label,target_y,target_x\nc.png,5,1.5,-2\na.png,-1,0,1e3\n");
  const auto data = open(folder_.path, {.labels = both});
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->read(0).label, 5);
  EXPECT_EQ(data->read(0).target, (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(data->read(1).target, (std::vector<float>{0, 1000}));
  EXPECT_FALSE(data->read(0).boxes.has_value());
  const std::string fingerprint = data->fingerprint();
  labels_.write("l.csv", "file,label,target_y,target_x\nc.png,5,1.5,-2\na.png,-1,0,1e4\n");
  EXPECT_NE(open(folder_.path, {.labels = both})->fingerprint(), fingerprint);

  const auto alone = labels_.write("t.csv", "target,file\n7,b.png\n");
  EXPECT_EQ(open(folder_.path, {.labels = alone})->read(0).target, std::vector<float>{7});
  EXPECT_EQ(open(folder_.path, {.labels = alone})->read(0).label, -1);
}

// An array's targets are those of the rows that were drawn, whatever their place among these.
TEST_F(ImageTruth, TargetsOfASelection) {
  std::vector<float> x, y;
  for (int row = 0; row < 40; ++row) {
    x.insert(x.end(), {static_cast<float>(row), 0});
    y.push_back(static_cast<float>(row) + 0.5f);
  }
  const std::vector<Initializer> arrays{{"x", float_tensor({40, 2}, x)}, {"y", float_tensor({40, 1}, y)}};
  save_npz(labels_.path / "d.npz", arrays);
  const ValueInfo pair{.name = "x", .type = DataType::kFloat, .shape = std::vector<Dimension>{{-1, "N"}, {2, ""}}};
  for (const DatasetOptions& drawn :
       {DatasetOptions{.random_samples = 9, .seed = 3}, DatasetOptions{.samples = 9, .order = SampleOrder::kMixed}}) {
    const auto data = open_dataset(labels_.path / "d.npz", std::span(&pair, 1), drawn);
    ASSERT_EQ(data->size(), 9);
    for (int64_t i = 0; i < 9; ++i)
      EXPECT_EQ(data->read(i).target, std::vector<float>{data->read(i).inputs[0].values<float>()[0] + 0.5f});
  }
  const std::vector<Initializer> targets{{"y", float_tensor({3, 1}, {1, 2, 3})}};
  save_npz(labels_.path / "t.npz", targets);
  const auto images = open(folder_.path, {.labels = (labels_.path / "t.npz").string(), .random_samples = 2, .seed = 1});
  for (int64_t i = 0; i < 2; ++i) {
    const Sample sample = images->read(i);
    EXPECT_EQ(sample.target, std::vector<float>{static_cast<float>(sample.name[0] - 'a' + 1)});
  }
}

TEST_F(ImageTruth, TargetErrorsNameTheLine) {
  const auto words = [&](const char* text) { return error_of([&] { read_labels(labels_.write("l.csv", text)); }); };
  EXPECT_PRED2(says, words("file,target\na.png,1\nb.png\n"), "line 3: the target \"\"");
  EXPECT_PRED2(says, words("file,target_x\na.png,nan\n"), "line 2: the target_x \"nan\"");
  EXPECT_PRED2(says, words("file,target\n,1\n"), "line 2: no file");
  EXPECT_PRED2(says, words("target\n1\n"), "add the column file");
}

TEST_F(ImageTruth, BoxesOfYolo) {
  labels_.write("a.txt", "2 0.5 0.25 0.5 0.5\n\n0 0.1 0.1 0.2 0.2\r\n");
  const auto data = open(folder_.path, {.labels = labels_.path.string()});
  const auto boxes = *data->read(0).boxes;
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(boxes[0], (Box{0.25f, 0, 0.75f, 0.5f, 2}));
  EXPECT_EQ(boxes[1].label, 0);
  EXPECT_TRUE(data->read(1).boxes->empty());  // no file: an image without objects
  const std::string fingerprint = data->fingerprint();
  labels_.write("b.txt", "1 0.5 0.5 0.5 0.5\n");
  EXPECT_NE(open(folder_.path, {.labels = labels_.path.string()})->fingerprint(), fingerprint);
  labels_.write("c.txt", "1 0.5 0.5 0.5 0.5\n1 0.5 0.5\n");
  EXPECT_PRED2(says, error_of([&] { data->read(2); }), "c.txt, line 2");
  labels_.write("c.txt", "1 0.5 0.5 0.5 0.5\n1 9 6 4 4\n");
  EXPECT_PRED2(says, error_of([&] { data->read(2); }), "c.txt, line 2: 9 found behind the class; places and sizes as");
  labels_.write("c.txt", "1 0.9 0.9 1.001 0.5 1.02 0.9\n");
  EXPECT_EQ(data->read(2).boxes->size(), 1U) << "an outline that is cut off at the edge";
  labels_.write("c.txt", "1.0 0.5 0.5 0.5 0.5\n2.000000e+00 0.5 0.5 0.5 0.5 0.9\n");
  EXPECT_EQ((*data->read(2).boxes)[0], (Box{0.25f, 0.25f, 0.75f, 0.75f, 1})) << "as numpy writes it";
  EXPECT_EQ((*data->read(2).boxes)[1], (Box{0.25f, 0.25f, 0.75f, 0.75f, 2})) << "with a score behind it";
  for (const char* wrong : {"1.7 0.5 0.5 0.5 0.5\n", "car 0.5 0.5 0.5 0.5\n"}) {
    labels_.write("c.txt", wrong);
    EXPECT_PRED2(says, error_of([&] { data->read(2); }), "c.txt, line 1") << wrong;
  }
  const auto cropped = labels_.write("p.json", R"({"crop": 8})");
  ValueInfo small = kImage;
  small.shape = std::vector<Dimension>{{1}, {3}, {8}, {8}};
  EXPECT_PRED2(says, error_of([&] {
                 open_dataset(folder_.path, std::span(&small, 1),
                              {.labels = labels_.path.string(), .preprocess = cropped});
               }),
               "crops to 8");
}

TEST_F(ImageTruth, BoxesOfCoco) {
  const auto file = labels_.write("c.json", R"({
    "images": [{"id": 9, "file_name": "b.png", "width": 100, "height": 50}, {"id": 3, "file_name": "c.png", "width": 8, "height": 8}],
    "categories": [{"id": 90}, {"id": 1}],
    "annotations": [{"image_id": 9, "category_id": 90, "bbox": [10, 5, 20, 40]},
                    {"image_id": 9, "category_id": 1, "bbox": [10, 5, 30, 20], "segmentation":
                     [[10, 5, 40, 5, 10, 25], [10, 5, 20, 5]]},
                    {"image_id": 9, "category_id": 1, "bbox": [0, 0, 50, 25], "iscrowd": 1, "area": 500,
                     "segmentation": {"counts": [0, 5000], "size": [50, 100]},
                     "keypoints": [25, 10, 2, 0, 0, 0]}]})");
  const auto data = open(folder_.path, {.labels = file});
  EXPECT_FALSE(data->read(0).boxes.has_value());  // not listed: not known
  EXPECT_EQ(data->read(1).classes, 2);
  const auto boxes = *data->read(1).boxes;
  ASSERT_EQ(boxes.size(), 3U);
  EXPECT_EQ(boxes[0], (Box{0.1f, 0.1f, 0.3f, 0.9f, 1, false, {{}, 0, 2}, 90}));
  EXPECT_EQ(boxes[1].outlines, (std::vector<Outline>{{{0.1f, 0.1f}, {0.4f, 0.1f}, {0.1f, 0.5f}}}));
  EXPECT_EQ(boxes[2], (Box{0, 0, 0.5f, 0.5f, 0, true, {{{0.25f, 0.2f, true}, {0, 0, false}}, 0.1f, 2}, 1}));
  EXPECT_TRUE(data->read(2).boxes->empty());
  const auto elsewhere = labels_.write("e.json", R"({"images": [
    {"id": 9, "file_name": "val/b.png", "width": 100, "height": 50}], "categories": [], "annotations": []})");
  EXPECT_PRED2(says, error_of([&] { open(folder_.path, {.labels = elsewhere}); }), "1 names of files as \"val/b.png\"");
  const auto words = [&](const char* text) { return error_of([&] { read_coco(labels_.write("d.json", text)); }); };
  EXPECT_PRED2(says, words("{}"), "COCO's form expected");
  EXPECT_PRED2(says, words(R"({"images": [{"id": 1, "file_name": "a", "width": 0, "height": 1}]})"), "0 x 1 pixels");
  EXPECT_PRED2(
      says,
      words(R"({"images": [], "categories": [], "annotations": [{"image_id": 1, "category_id": 2, "bbox": []}]})"),
      "image 1 and category 2");
}

}  // namespace
}  // namespace seqto::internal
