// Data sets of images and arrays, selection and split.
#include "seqto/dataset.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/files.h"
#include "data/datasets.h"
#include "data/pictures.h"
#include "data/preprocess.h"
#include "data/select.h"

namespace seqto::internal {
namespace {

// Dimensions below 0 are symbolic.
ValueInfo input(std::vector<int64_t> dims, DataType type = DataType::kFloat, std::string name = "input") {
  ValueInfo info{.name = std::move(name), .type = type, .shape = std::vector<Dimension>{}};
  for (const int64_t dim : dims) info.shape->push_back({dim, dim < 0 ? "N" : ""});
  return info;
}

std::unique_ptr<Dataset> open(const std::filesystem::path& path, const ValueInfo& info,
                              const DatasetOptions& options = {}) {
  return open_dataset(path, std::span(&info, 1), options);
}

std::string open_error(const std::filesystem::path& path, const ValueInfo& info, const DatasetOptions& options = {}) {
  return error_of([&] { open(path, info, options); });
}

TEST(ImageDataset, GivesValuesInTheRecipesLayout) {
  const Folder folder("seqto-images");
  folder.add("rgb.png", "b.png");
  folder.add("grey.png", "a.PNG");
  folder.add("rgb.jpg", "c.jpeg");
  folder.write("notes.txt", "not an image");
  folder.write("._b.png", "not an image either");
  const Image image = picture(19, 13);
  const auto plane = static_cast<size_t>(19 * 13);

  const auto rows = open(folder.path, input({-1, 3, 13, 19}));
  ASSERT_EQ(rows->size(), 3);
  EXPECT_FALSE(rows->has_labels());
  EXPECT_EQ(rows->read(0).name, "a.PNG");
  const Sample sample = rows->read(1);
  EXPECT_EQ(sample.name, "b.png");
  EXPECT_EQ(sample.label, -1);
  ASSERT_EQ(sample.inputs.size(), 1U);
  EXPECT_EQ(sample.inputs[0].dims(), (std::vector<int64_t>{1, 3, 13, 19}));
  const auto values = sample.inputs[0].values<float>();
  const std::vector<float> table = value_tables(load_preprocess("unit"))[0];
  for (size_t i = 0; i < 3 * plane; ++i) ASSERT_EQ(values[i], table[image.rgb[i % plane * 3 + i / plane]]) << i;

  const std::string recipe =
      folder.write("p.json", R"({"layout":"nhwc","channel_order":"bgr","scale":1,"mean":[1,0,0],"std":[1,1,2]})");
  const auto columns = open(folder.path, input({1, 13, 19, 3}), {.preprocess = recipe});
  const Tensor tensor = columns->read(1).inputs[0];
  EXPECT_EQ(tensor.dims(), (std::vector<int64_t>{1, 13, 19, 3}));
  EXPECT_EQ(tensor.values<float>()[0], static_cast<float>(image.rgb[2]) - 1);
  EXPECT_EQ(tensor.values<float>()[5], static_cast<float>(image.rgb[3]) / 2);
  EXPECT_NE(rows->fingerprint(), columns->fingerprint());
}

TEST(ImageDataset, FeedsOtherTypes) {
  const Folder folder("seqto-types");
  folder.add("rgb.png", "b.png");
  const auto bytes = open(folder.path, input({-1, 3, -1, -1}, DataType::kUint8), {.preprocess = "none"});
  EXPECT_EQ(bytes->read(0).inputs[0].values<uint8_t>()[1], 37);
  const auto halves = open(folder.path, input({-1, 3, -1, -1}, DataType::kFloat16), {.preprocess = "none"});
  EXPECT_EQ(halves->read(0).inputs[0].values<uint16_t>()[1], 0x50a0);  // 37
  EXPECT_PRED2(says, open_error(folder.path, input({-1, 3, -1, -1}, DataType::kUint8)), "'input' of uint8");
}

TEST(ImageDataset, TheCacheChangesNothing) {
  const Folder folder("seqto-cache");
  for (const char* name : {"a.png", "b.png", "c.png"}) folder.add("rgb.png", name);
  const ValueInfo info = input({-1, 3, 13, 19});
  for (const int64_t cache_bytes : {int64_t{0}, int64_t{19 * 13 * 3}, int64_t{1} << 20}) {
    const auto data = open(folder.path, info, {.cache_bytes = cache_bytes});
    const Tensor first = data->read(0).inputs[0];
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 30; ++i) ASSERT_TRUE(data->read(i % 3).inputs[0].equals(first));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ImageDataset, LabelsGiveTheOrder) {
  const Folder folder("seqto-order");
  for (const char* name : {"a.png", "b.png", "c.png"}) folder.add("rgb.png", name);
  const ValueInfo info = input({-1, 3, 13, 19});
  const std::string labels = folder.write("l.csv", "file,label\nc.png,5\na.png,0\n");
  const auto data = open(folder.path, info, {.labels = labels});
  ASSERT_EQ(data->size(), 2);
  EXPECT_TRUE(data->has_labels());
  EXPECT_EQ(data->read(0).name, "c.png");
  EXPECT_EQ(data->read(0).label, 5);
  EXPECT_EQ(data->read(1).label, 0);
  // Boxes for each image: no classes.
  const auto boxes = open(folder.path, info, {.labels = folder.path.string()});
  EXPECT_EQ(boxes->size(), 3);
  EXPECT_FALSE(boxes->has_labels());

  const std::string fingerprint = data->fingerprint();
  EXPECT_EQ(fingerprint.size(), 64U);
  EXPECT_EQ(open(folder.path, info, {.labels = labels})->fingerprint(), fingerprint);
  const std::string bytes = read_file(folder.path / "a.png");
  std::string other = bytes;
  other.back() ^= 1;  // as long
  folder.write("a.png", other);
  EXPECT_NE(open(folder.path, info, {.labels = labels})->fingerprint(), fingerprint);
  folder.write("a.png", bytes);
  EXPECT_EQ(open(folder.path, info, {.labels = labels})->fingerprint(), fingerprint);
  folder.write("l.csv", "file,label\nc.png,5\na.png,1\n");
  EXPECT_NE(open(folder.path, info, {.labels = labels})->fingerprint(), fingerprint);
  folder.write("l.csv", "file,label\nc.png,5\nd.png,1\n");
  EXPECT_PRED2(says, open_error(folder.path, info, {.labels = labels}), "line 3: d.png is not in");
}

TEST(ImageDataset, ErrorsSayWhatIsWrong) {
  const Folder folder("seqto-image-errors");
  const ValueInfo info = input({-1, 3, 13, 19});
  EXPECT_PRED2(says, open_error(folder.path / "none", info), "nothing found there");
  EXPECT_PRED2(says, open_error(folder.path, info), ".jpg, .jpeg or .png");
  folder.add("rgb.png", "a.png");
  EXPECT_PRED2(says, open_error(folder.path, input({-1, 13, 19, 3})), "set \"layout\":\"nhwc\"");
  const std::string words = open_error(folder.path, input({-1, 3, 224, 224}));
  EXPECT_PRED2(says, words, "[1, 3, 13, 19] found");
  EXPECT_PRED2(says, words, "[N, 3, 224, 224] expected");
  EXPECT_PRED2(says, open_error(folder.path, input({-1, 2, 13, 19})), "[N, 2, 13, 19] expected");
  EXPECT_PRED2(says, open_error(folder.path, input({8, 3, 13, 19})), "1 found; 8 or more expected");
  EXPECT_PRED2(says, open_error(folder.path, input({-1, 10})), "[N, 10] expected");
  const ValueInfo bytes = input({-1, 3, 13, 19}, DataType::kUint8);
  EXPECT_PRED2(says, open_error(folder.path, bytes), "--preprocess none");
  EXPECT_EQ(open(folder.path, bytes, {.preprocess = "none"})->read(0).inputs[0].type(), DataType::kUint8);
  const std::vector<ValueInfo> two = {info, input({-1, 4}, DataType::kFloat, "state")};
  EXPECT_PRED2(says, error_of([&] { open_dataset(folder.path, two); }), "2 inputs (input, state)");
  EXPECT_PRED2(says, error_of([&] { open_dataset(folder.path, {}); }), "without inputs");
  const std::vector<ValueInfo> text{{"words", DataType::kString, {}, ""}};
  EXPECT_PRED2(says, error_of([&] { open_dataset("random", text); }), "input 'words' of strings found");

  // Those after the first are found out when they are read.
  folder.write("b.png", "no picture");
  folder.write("c.png", "");
  const auto data = open(folder.path, info);
  EXPECT_PRED2(says, error_of([&] { data->read(1); }), "b.png: neither JPEG nor PNG");
  EXPECT_PRED2(says, error_of([&] { data->read(2); }), "c.png: empty file");
}

class ArrayDatasetTest : public testing::Test {
 protected:
  std::filesystem::path save(std::vector<Initializer> arrays) const {
    save_npz(folder_.path / "a.npz", arrays);
    return folder_.path / "a.npz";
  }
  // n samples of `dims`, counting up from 0.
  static Tensor counting(std::vector<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
    return float_tensor(std::move(dims), std::move(values));
  }
  Folder folder_{"seqto-array-data"};
};

TEST_F(ArrayDatasetTest, FillsWhatFollowsTokens) {
  const auto ids = [](const char* name) { return input({-1, -1}, DataType::kInt64, name); };
  const std::vector<ValueInfo> inputs{ids("attention_mask"), ids("input_ids"), ids("position_ids"),
                                      input({-1, 2, -1, 4}, DataType::kFloat, "past_key_values.0.key")};
  const auto tokens = int64_tensor({2, 3}, {4, 5, 6, 7, 8, 9});
  const auto data = open_dataset(save({{"input_ids", tokens}}), inputs);
  ASSERT_EQ(data->size(), 2);
  const Sample sample = data->read(1);
  EXPECT_TRUE(sample.inputs[0].equals(int64_tensor({1, 3}, {1, 1, 1})));
  EXPECT_TRUE(sample.inputs[1].equals(int64_tensor({1, 3}, {7, 8, 9})));
  EXPECT_TRUE(sample.inputs[2].equals(int64_tensor({1, 3}, {0, 1, 2})));
  EXPECT_EQ(sample.inputs[3].dims(), (std::vector<int64_t>{1, 2, 0, 4}));
  // What the file has is taken as it is.
  const auto mask = int64_tensor({2, 3}, {1, 1, 0, 1, 0, 0});
  EXPECT_TRUE(open_dataset(save({{"input_ids", tokens}, {"attention_mask", mask}}), inputs)
                  ->read(1)
                  .inputs[0]
                  .equals(int64_tensor({1, 3}, {1, 0, 0})));
  EXPECT_PRED2(says, error_of([&] { open_dataset(save({{"attention_mask", mask}}), inputs); }), "missing");
}

TEST_F(ArrayDatasetTest, TokensGoOnBehindTheirPast) {
  const auto ids = [](const char* name) { return input({-1, -1}, DataType::kInt64, name); };
  const std::vector<ValueInfo> inputs{ids("attention_mask"), ids("input_ids"), ids("position_ids"),
                                      ids("token_type_ids"),
                                      input({-1, 2, -1, 4}, DataType::kFloat, "past_key_values.0.key")};
  const auto tokens = int64_tensor({2, 3}, {4, 5, 6, 7, 8, 9});
  const auto past = counting({2, 2, 5, 4});
  const Sample sample = open_dataset(save({{"input_ids", tokens}, {"past_key_values.0.key", past}}), inputs)->read(1);
  EXPECT_TRUE(sample.inputs[0].equals(int64_tensor({1, 8}, {1, 1, 1, 1, 1, 1, 1, 1})));
  EXPECT_TRUE(sample.inputs[1].equals(int64_tensor({1, 3}, {7, 8, 9})));
  EXPECT_TRUE(sample.inputs[2].equals(int64_tensor({1, 3}, {5, 6, 7})));
  EXPECT_TRUE(sample.inputs[3].equals(int64_tensor({1, 3}, {0, 0, 0})));
}

// transformers: cumsum(mask) - 1, and 1 where the mask is 0; of the tokens behind a past the last ones.
TEST_F(ArrayDatasetTest, PositionsFollowTheMask) {
  const auto ids = [](const char* name) { return input({-1, -1}, DataType::kInt64, name); };
  const std::vector<ValueInfo> inputs{ids("attention_mask"), ids("input_ids"), ids("position_ids"),
                                      input({-1}, DataType::kInt64, "cache_position")};
  const auto tokens = int64_tensor({2, 4}, {0, 0, 5, 6, 7, 8, 9, 0}),
             mask = int64_tensor({2, 4}, {0, 0, 1, 1, 1, 1, 1, 0});
  const auto data = open_dataset(save({{"input_ids", tokens}, {"attention_mask", mask}}), inputs);
  EXPECT_TRUE(data->read(0).inputs[2].equals(int64_tensor({1, 4}, {1, 1, 0, 1})));
  EXPECT_TRUE(data->read(1).inputs[2].equals(int64_tensor({1, 4}, {0, 1, 2, 1})));
  EXPECT_TRUE(data->read(0).inputs[3].equals(int64_tensor({4}, {0, 1, 2, 3}))) << "places, whatever is hidden";
  const std::vector<ValueInfo> behind{ids("attention_mask"), ids("input_ids"), ids("position_ids"),
                                      input({-1, 2, -1, 4}, DataType::kFloat, "past_key_values.0.key")};
  const auto whole = int64_tensor({2, 6}, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
  const auto gone_on = open_dataset(
      save({{"input_ids", tokens}, {"attention_mask", whole}, {"past_key_values.0.key", counting({2, 2, 2, 4})}}),
      behind);
  EXPECT_TRUE(gone_on->read(0).inputs[2].equals(int64_tensor({1, 4}, {1, 2, 3, 4})));
  EXPECT_TRUE(gone_on->read(1).inputs[2].equals(int64_tensor({1, 4}, {2, 3, 4, 1})));
}

TEST_F(ArrayDatasetTest, PositionsDoNotFollowWhatIsNoMaskOfASequence) {
  const auto tokens = int64_tensor({1, 3}, {0, 5, 6});
  const auto positions = [&](const Tensor& mask, std::vector<int64_t> shape,
                             std::vector<int64_t> of_positions = {-1, -1}) {
    const std::vector<ValueInfo> inputs{input(std::move(shape), mask.type(), "attention_mask"),
                                        input({-1, -1}, DataType::kInt64, "input_ids"),
                                        input(std::move(of_positions), DataType::kInt64, "position_ids")};
    return open_dataset(save({{"input_ids", tokens}, {"attention_mask", mask}}), inputs)->read(0);
  };
  const auto all = int64_tensor({1, 3}, {0, 1, 2}), behind = int64_tensor({1, 3}, {1, 0, 1});
  EXPECT_TRUE(
      positions(int64_tensor({1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}), {-1, 1, -1, -1}).inputs[2].equals(all));
  const Sample added = positions(float_tensor({1, 3}, {-1e9f, 0, 0}), {-1, -1});
  EXPECT_TRUE(added.inputs[2].equals(all)) << "0 is seen";
  EXPECT_EQ(added.tokens, (std::vector<int64_t>{0, 5, 6}));
  EXPECT_TRUE(positions(float_tensor({1, 3}, {0, 1, 1}), {-1, -1}).inputs[2].equals(behind))
      << "as in exports of GPT-2";
  EXPECT_TRUE(
      positions(int64_tensor({1, 3}, {0, 1, 1}), {-1, -1}, {-1}).inputs[2].equals(int64_tensor({3}, {1, 0, 1})));
}

TEST_F(ArrayDatasetTest, AnInputOfOneNumberIsAskedForByItsFlag) {
  const std::vector<ValueInfo> inputs{input({-1, -1}, DataType::kInt64, "input_ids"),
                                      input({}, DataType::kInt64, "num_logits_to_keep")};
  const auto path = save({{"input_ids", int64_tensor({1, 2}, {1, 2})}});
  EXPECT_PRED2(says, error_of([&] { open_dataset(path, inputs); }),
               "give --input num_logits_to_keep=0, which keeps all");
}

TEST_F(ArrayDatasetTest, GivesViewsWithABatchOfOne) {
  const auto data = open(save({{"x", counting({3, 2, 2})}, {"y", int64_tensor({3}, {7, 8, 9})}}), input({-1, 2, 2}));
  ASSERT_EQ(data->size(), 3);
  EXPECT_TRUE(data->has_labels());
  const Sample sample = data->read(2);
  EXPECT_EQ(sample.label, 9);
  EXPECT_EQ(sample.name, "2");
  EXPECT_EQ(sample.inputs[0].dims(), (std::vector<int64_t>{1, 2, 2}));
  EXPECT_TRUE(sample.inputs[0].equals(float_tensor({1, 2, 2}, {8, 9, 10, 11})));
  EXPECT_EQ(sample.inputs[0].bytes().data(), data->read(0).inputs[0].bytes().data() + 32);
  // Samples that hold the batch already.
  EXPECT_EQ(open(save({{"x", counting({3, 1, 2, 2})}}), input({-1, 2, 2}))->read(0).inputs[0].dims(),
            (std::vector<int64_t>{1, 2, 2}));
}

TEST_F(ArrayDatasetTest, TakesTheArrayByNameOrX) {
  const ValueInfo info = input({-1, 2});
  const auto second = [&](std::vector<Initializer> arrays) {
    return open(save(std::move(arrays)), info)->read(1).inputs[0].values<float>()[0];
  };
  EXPECT_EQ(second({{"pixels", counting({2, 2})}, {"y", int64_tensor({2}, {0, 0})}}), 2);
  EXPECT_EQ(second({{"a", counting({4, 2})}, {"x", counting({2, 2})}}), 2);
  EXPECT_EQ(second({{"input", counting({2, 2})}, {"z", counting({2, 3})}}), 2);
  EXPECT_PRED2(says, open_error(save({{"a", counting({2, 2})}, {"b", counting({2, 2})}}), info),
               "the arrays a, b found");
  EXPECT_EQ(open(golden("plain.npy"), input({-1, 3, 4}))->read(1).inputs[0].values<float>()[0], 12);
}

TEST_F(ArrayDatasetTest, FillsSeveralInputs) {
  const std::vector<ValueInfo> inputs = {input({-1, -1}, DataType::kFloat, "sound"),
                                         input({2, -1, 3}, DataType::kFloat, "state"),
                                         input({}, DataType::kInt64, "rate")};
  const auto data = open_dataset(
      save({{"sound", counting({4, 5})}, {"state", counting({4, 2, 1, 3})}, {"rate", int64_tensor({}, {16000})}}),
      inputs);
  const Sample sample = data->read(3);
  ASSERT_EQ(sample.inputs.size(), 3U);
  EXPECT_EQ(sample.inputs[0].dims(), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(sample.inputs[1].dims(), (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(sample.inputs[1].values<float>()[0], 18);
  EXPECT_TRUE(sample.inputs[2].equals(int64_tensor({}, {16000})));
  EXPECT_EQ(sample.label, -1);

  const std::string words = error_of([&] { open_dataset(save({{"sound", counting({4, 5})}}), inputs); });
  EXPECT_PRED2(says, words, "state, rate missing");
  EXPECT_PRED2(says, words, "sound, state, rate");
  EXPECT_PRED2(says, error_of([&] { open_dataset(golden("plain.npy"), inputs); }), "one unnamed array found");
  EXPECT_PRED2(
      says, error_of([&] {
        open_dataset(
            save({{"sound", counting({4, 5})}, {"state", counting({3, 2, 1, 3})}, {"rate", int64_tensor({}, {16000})}}),
            inputs);
      }),
      "4 samples in sound and 3 in state");
}

TEST_F(ArrayDatasetTest, FillsAFixedBatch) {
  const std::filesystem::path path =
      save({{"x", counting({5, 2, 2})}, {"state", counting({5, 3})}, {"y", int64_tensor({5}, {0, 1, 0, 1, 0})}});
  const std::vector<ValueInfo> inputs = {input({2, 2, 2}, DataType::kFloat, "x"),
                                         input({2, 3}, DataType::kFloat, "state")};
  const auto data = open_dataset(path, inputs);
  ASSERT_EQ(data->size(), 2);
  EXPECT_FALSE(data->has_labels());
  EXPECT_EQ(items_in_sample(*data), 2);
  EXPECT_EQ(items_in_sample(*open(path, input({-1, 2, 2}, DataType::kFloat, "x"))), 1);
  const Sample second = data->read(1);
  EXPECT_EQ(second.name, "2 to 3");
  EXPECT_EQ(second.label, -1);
  EXPECT_EQ(second.inputs[0].dims(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_TRUE(std::ranges::equal(second.inputs[0].values<float>(), std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(second.inputs[1].dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(second.inputs[1].values<float>(), std::vector<float>{6, 7, 8, 9, 10, 11}));
  EXPECT_NE(data->fingerprint(), open_dataset(path, inputs, {.samples = 4})->fingerprint());
  DatasetOptions carried;
  carried.states = {{.output = "next", .input = "state"}};
  const std::string words = error_of([&] { open_dataset(path, inputs, carried); });
  EXPECT_PRED2(says, words, "has a fixed batch of 2; with labels or states 1 or a symbolic batch expected");
}

// [2, batch, heads, past, size]: keys of both items, then values of both.
TEST_F(ArrayDatasetTest, AFixedBatchOfAPastIsItsSecondAxis) {
  const std::vector<ValueInfo> inputs{input({2, -1}, DataType::kInt64, "input_ids"),
                                      input({2, 2, 1, -1, 2}, DataType::kFloat, "past_0")};
  const auto past = counting({2, 2, 1, 1, 1, 2});
  const auto data = open_dataset(save({{"input_ids", int64_tensor({2, 1}, {4, 5})}, {"past_0", past}}), inputs);
  ASSERT_EQ(data->size(), 1);
  EXPECT_TRUE(data->read(0).inputs[1].equals(float_tensor({2, 2, 1, 1, 2}, {0, 1, 4, 5, 2, 3, 6, 7})));
}

TEST_F(ArrayDatasetTest, ErrorsSayBothShapes) {
  const std::string words = open_error(save({{"x", counting({3, 2, 2})}}), input({-1, 2, 4}));
  EXPECT_PRED2(says, words, "shape [3, 2, 2] found, so samples of [2, 2]");
  EXPECT_PRED2(says, words, "[N, 2, 4] expected");
  EXPECT_PRED2(says, open_error(save({{"x", counting({3, 2, 2})}}), input({8, 2, 2})), "3 found; 8 or more expected");
  EXPECT_PRED2(says, open_error(save({{"x", counting({0, 2})}}), input({-1, 2})), "no samples");
  EXPECT_PRED2(says, open_error(save({{"x", counting({3, 2})}, {"y", int64_tensor({2}, {1, 2})}}), input({-1, 2})),
               "3 samples and labels y of shape [2]");
  EXPECT_PRED2(says, open_error(save({{"x", counting({3, 2})}}), input({-1, 2}), {.preprocess = "imagenet"}),
               "as they are");
}

TEST_F(ArrayDatasetTest, LabelsOfOtherKinds) {
  const auto labelled = [&](Tensor y) {
    return open(save({{"x", counting({2, 2})}, {"y", std::move(y)}}), input({-1, 2}));
  };
  EXPECT_EQ(labelled(float_tensor({2, 1}, {4, 5}))->read(1).label, 5);
  EXPECT_FALSE(labelled(float_tensor({2}, {4.5, 5}))->has_labels());
  EXPECT_FALSE(labelled(counting({2, 10}))->has_labels());

  const std::string csv = folder_.write("l.csv", "file,label\n1,6\n0,7\n");
  const auto data = open(save({{"x", counting({2, 2})}}), input({-1, 2}), {.labels = csv});
  EXPECT_EQ(data->read(0).label, 6);
  EXPECT_EQ(data->read(0).inputs[0].values<float>()[0], 2);
  folder_.write("l.csv", "file,label\n2,6\n");
  EXPECT_PRED2(says, open_error(folder_.path / "a.npz", input({-1, 2}), {.labels = csv}), "line 2: the file \"2\"");
}

TEST_F(ArrayDatasetTest, SelectionAndFingerprint) {
  const auto path = save({{"x", counting({50, 2})}});
  const ValueInfo info = input({-1, 2});
  const auto all = open(path, info), some = open(path, info, {.samples = 4});
  EXPECT_EQ(some->size(), 4);
  EXPECT_EQ(open(path, info, {.samples = 400})->size(), 50);
  EXPECT_NE(all->fingerprint(), some->fingerprint());
  EXPECT_EQ(all->fingerprint(), open(path, info)->fingerprint());
  const auto drawn = open(path, info, {.random_samples = 5, .seed = 3});
  EXPECT_EQ(drawn->size(), 5);
  EXPECT_EQ(drawn->read(4).inputs[0].values<float>()[0], 2 * std::stof(drawn->read(4).name));
  EXPECT_PRED2(says, open_error(path, info, {.random_samples = 51}), "50 samples found; 51 to draw");
}

TEST(Draw, IsTheSameEverywhere) {
  EXPECT_EQ(draw(10, 4, 0), draw(10, 4, 0));
  EXPECT_NE(draw(1000, 4, 0), draw(1000, 4, 1));
  EXPECT_EQ(draw(5, 5, 9), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(draw(5, 0, 9), std::vector<int64_t>{});
  std::vector<int> counts(10);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::vector<int64_t> indices = draw(10, 3, seed);
    EXPECT_EQ(std::set<int64_t>(indices.begin(), indices.end()).size(), 3U);
    EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
    for (const int64_t i : indices) ++counts[i];
  }
  for (const int count : counts) EXPECT_NEAR(count, 600, 100);
  // From an independent mt19937_64 and the same shuffle.
  EXPECT_EQ(draw(100, 5, 42), (std::vector<int64_t>{6, 16, 57, 78, 98}));
}

TEST(Split, PartsFollowEachOther) {
  const Split parts = split(100, {.calibration = 10, .search = 20, .evaluation = 30});
  EXPECT_EQ(parts.calibration.front(), 0);
  EXPECT_EQ(parts.calibration.size(), 10U);
  EXPECT_EQ(parts.search.front(), 10);
  EXPECT_EQ(parts.search.size(), 20U);
  EXPECT_EQ(parts.evaluation.front(), 30);
  EXPECT_EQ(parts.evaluation.back(), 59);
  EXPECT_TRUE(parts.notes.empty());
  EXPECT_EQ(split(200).evaluation.size(), 72U);
}

TEST(Split, SaysWhereDataAreTooFew) {
  const std::string words = error_of([] { split(100, {.calibration = 60, .search = 30, .evaluation = 11}); });
  for (const char* part : {"100 samples", "60 for calibration", "30 for search", "11 for evaluation"}) {
    EXPECT_PRED2(says, words, part);
  }
  EXPECT_PRED2(says, error_of([] { split(100, {.calibration = INT64_MAX, .search = INT64_MAX}); }), "100 samples");
  EXPECT_PRED2(says, error_of([] { split(100, {.calibration = -1}); }), "negative");
  const Split tight = split(128);
  EXPECT_TRUE(tight.evaluation.empty());
  ASSERT_EQ(tight.notes.size(), 1U);
  EXPECT_PRED2(says, tight.notes[0], "0 of 128 samples are left for evaluation");
}

}  // namespace
}  // namespace seqto::internal
