// Data of other kinds than images and arrays: ONNX's test data, random numbers, constants, open dimensions; grey
// images.
#include <gtest/gtest.h>

#include "data/pictures.h"
#include "seqto/dataset.h"

namespace seqto::internal {
namespace {

ValueInfo input(std::string name, std::vector<Dimension> shape, DataType type = DataType::kFloat) {
  return {.name = std::move(name), .type = type, .shape = std::move(shape)};
}
const Dimension kBatch{-1, "N"}, kLength{-1, "T"};

// The fields of a TensorProto: dims, data_type, name, raw_data.
std::string tensor_proto(const std::string& name, std::vector<int64_t> dims, const Tensor& tensor) {
  std::string bytes;
  for (const int64_t dim : dims) bytes += {'\x08', static_cast<char>(dim)};
  bytes += {'\x10', static_cast<char>(tensor.type())};
  bytes += {'\x42', static_cast<char>(name.size())};
  const auto raw = tensor.bytes();
  bytes += name;
  bytes += {'\x4a', static_cast<char>(raw.size())};
  return bytes + std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

struct TestSets : Folder {
  TestSets() : Folder("seqto-test-data") {
    for (const int set : {0, 1, 10, 2}) {
      const auto number = static_cast<float>(set);
      const std::string name = "test_data_set_" + std::to_string(set);
      std::filesystem::create_directories(path / name);
      write(name + "/input_0.pb", tensor_proto("ids", {1, 2}, int64_tensor({1, 2}, {set, 1})));
      write(name + "/input_1.pb", tensor_proto("x", {1, 2}, float_tensor({1, 2}, {number, 2})));
      write(name + "/output_0.pb", tensor_proto("y", {1, 1}, float_tensor({1, 1}, {number + 1})));
    }
    write("model.onnx", "not read");
  }
};

TEST(TestData, IsReadInTheOrderOfItsNumbers) {
  const TestSets folder;
  const std::vector<ValueInfo> inputs{input("x", {kBatch, {2, ""}}), input("ids", {kBatch, kLength}, DataType::kInt64)};
  const auto data = open_dataset(folder.path, inputs);
  ASSERT_EQ(data->size(), 4);
  const Sample last = data->read(3);
  EXPECT_EQ(last.name, "test_data_set_10");
  ASSERT_EQ(last.inputs.size(), 2U);
  EXPECT_EQ(last.inputs[0].values<float>()[0], 10);  // by name, not by number
  EXPECT_EQ(last.inputs[1].values<int64_t>()[0], 10);
  ASSERT_EQ(last.expected.size(), 1U);
  EXPECT_EQ(last.expected[0].name, "y");
  EXPECT_EQ(last.expected[0].tensor.values<float>()[0], 11);
  EXPECT_NE(data->read(0).sequence, data->read(1).sequence);
  EXPECT_FALSE(data->is_random());

  const auto one = open_dataset(folder.path / "test_data_set_2", inputs);
  ASSERT_EQ(one->size(), 1);
  EXPECT_EQ(one->read(0).inputs[0].values<float>()[0], 2);
  EXPECT_NE(one->fingerprint(), data->fingerprint());
  EXPECT_EQ(open_dataset(folder.path, inputs, {.samples = 2})->size(), 2);
}

TEST(TestData, OtherNamesAreTakenByPosition) {
  const TestSets folder;
  const std::vector<ValueInfo> inputs{input("a", {kBatch, {2, ""}}), input("b", {kBatch, {2, ""}})};
  const Sample sample = open_dataset(folder.path, inputs)->read(1);
  EXPECT_EQ(sample.inputs[0].values<float>()[0], 1);  // int64 in the file, float in the model
  EXPECT_EQ(sample.inputs[1].values<float>()[1], 2);
}

TEST(TestData, ErrorsSayWhatIsWrong) {
  const TestSets folder;
  const auto error = [&](const std::vector<ValueInfo>& inputs) {
    return error_of([&] { open_dataset(folder.path, inputs); });
  };
  EXPECT_PRED2(says, error({input("x", {kBatch, {3, ""}})}), "shape [1, 2] found for the model input 'x'");
  EXPECT_PRED2(says, error({input("z", {kBatch, {2, ""}})}), "2 inputs found (ids, x); the model's input 'z' expected");
  folder.write("test_data_set_0/input_0.pb", "nonsense");
  EXPECT_PRED2(says, error({input("x", {kBatch, {2, ""}})}), "input_0.pb: 8 bytes that are no tensor found");
  std::filesystem::resize_file(folder.path / "test_data_set_0/input_1.pb", 9);
  folder.write("test_data_set_0/input_0.pb", tensor_proto("ids", {1, 9}, int64_tensor({1, 2}, {0, 1})));
  EXPECT_PRED2(says, error({input("x", {kBatch, {2, ""}})}), "16 bytes found, 72 expected");
}

TEST(RandomData, FollowsTheShapes) {
  const std::vector<ValueInfo> inputs{input("x", {kBatch, {3, ""}, kLength}),
                                      input("ids", {kBatch, kLength}, DataType::kInt64),
                                      input("state", {{2, ""}, kBatch, {4, ""}}, DataType::kFloat16)};
  const DatasetOptions options{.seed = 3, .dims = {{"T", 50}}};
  const auto data = open_dataset("random", inputs, options);
  EXPECT_TRUE(data->is_random());
  EXPECT_EQ(data->size(), 100);
  const Sample sample = data->read(7);
  EXPECT_EQ(sample.inputs[0].dims(), (std::vector<int64_t>{1, 3, 50}));
  EXPECT_EQ(sample.inputs[1].dims(), (std::vector<int64_t>{1, 50}));
  EXPECT_EQ(sample.inputs[2].dims(), (std::vector<int64_t>{2, 1, 4}));
  EXPECT_EQ(sample.inputs[2].type(), DataType::kFloat16);
  float lowest = 1, highest = -1;
  for (const float value : sample.inputs[0].values<float>()) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  EXPECT_TRUE(lowest >= -1 && lowest < -0.8f && highest > 0.8f && highest < 1) << lowest << " " << highest;
  int64_t ones = 0;
  for (const int64_t value : sample.inputs[1].values<int64_t>()) {
    ASSERT_TRUE(value == 0 || value == 1);
    ones += value;
  }
  EXPECT_TRUE(ones > 0 && ones < 50);

  EXPECT_TRUE(open_dataset("random", inputs, options)->read(7).inputs[0].equals(sample.inputs[0]));
  EXPECT_FALSE(data->read(8).inputs[0].equals(sample.inputs[0]));
  DatasetOptions other = options;
  other.seed = 4;
  EXPECT_FALSE(open_dataset("random", inputs, other)->read(7).inputs[0].equals(sample.inputs[0]));
  EXPECT_NE(open_dataset("random", inputs, other)->fingerprint(), data->fingerprint());
  other = options;
  other.samples = 5;
  EXPECT_EQ(open_dataset("random", inputs, other)->size(), 5);
  EXPECT_TRUE(open_dataset("random", inputs, other)->read(3).inputs[0].equals(data->read(3).inputs[0]));

  EXPECT_PRED2(says, error_of([&] { open_dataset("random", inputs); }), "say it with --dim T=SIZE");
  auto unnamed = inputs;
  (*unnamed[0].shape)[1] = (*unnamed[0].shape)[2] = {-1, "?"};
  EXPECT_PRED2(says, error_of([&] { open_dataset("random", unnamed); }), "say it with --dim x:1=SIZE --dim x:2=SIZE");
  EXPECT_PRED2(says, error_of([&] { open_dataset("random", inputs, {.dims = {{"U", 5}}}); }),
               "another code: [model] the dimension U=5 found; one of N, T, or INPUT:AXIS, was expected");
  EXPECT_PRED2(says, error_of([&] { open_dataset("random", inputs, {.dims = {{"T", 0}}}); }), "at least 1");
  EXPECT_PRED2(says, error_of([&] { open_dataset("random", inputs, {.dims = {{"x:1", 4}}}); }), "fixes it at 3");
  const auto axes = open_dataset("random", inputs, {.dims = {{"x:2", 6}, {"ids:1", 7}}});
  EXPECT_EQ(axes->read(0).inputs[0].dims()[2], 6);
  EXPECT_EQ(axes->read(0).inputs[1].dims()[1], 7);
}

TEST(Constants, FillTheInputsThatTheDataDoNotHave) {
  const Folder folder("seqto-constants");
  const std::vector<Initializer> arrays{{"x", float_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}};
  save_npz(folder.path / "d.npz", arrays);
  const std::vector<ValueInfo> inputs{input("sr", {}, DataType::kInt64), input("audio", {kBatch, {3, ""}}),
                                      input("gain", {kBatch, {2, ""}})};
  const auto data = open_dataset(folder.path / "d.npz", inputs, {.constants = {{"sr", 16000}, {"gain", 0.5}}});
  const Sample sample = data->read(1);
  ASSERT_EQ(sample.inputs.size(), 3U);
  EXPECT_EQ(sample.inputs[0].values<int64_t>()[0], 16000);
  EXPECT_TRUE(sample.inputs[0].dims().empty());
  EXPECT_EQ(sample.inputs[1].values<float>()[0], 4);
  EXPECT_EQ(sample.inputs[2].dims(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(sample.inputs[2].values<float>()[1], 0.5f);
  EXPECT_EQ(sample.position, 1);
  const auto other = open_dataset(folder.path / "d.npz", inputs, {.constants = {{"sr", 8000}, {"gain", 0.5}}});
  EXPECT_NE(other->fingerprint(), data->fingerprint());
  const auto error = [&](std::map<std::string, double> constants) {
    return error_of([&] { open_dataset(folder.path / "d.npz", inputs, {.constants = std::move(constants)}); });
  };
  EXPECT_PRED2(says, error({{"rate", 1}}), "one of the model's inputs sr, audio, gain expected");
  EXPECT_PRED2(says, error({{"sr", 0.5}, {"gain", 1}}), "the constant input 'sr': the value 0.5 found");
  EXPECT_PRED2(says, error({{"sr", 1}, {"gain", 1}, {"audio", 1}}), "at least one from the data expected");
}

TEST(GreyImages, FeedModelsOfOneChannel) {
  const Folder folder("seqto-grey");
  folder.add("rgb.png", "b.png");
  folder.add("grey.png", "a.png");
  const std::vector<ValueInfo> inputs{input("x", {kBatch, {1, ""}, {13, ""}, {19, ""}})};
  const auto data = open_dataset(folder.path, inputs, {.preprocess = "none"});
  const Image image = picture(19, 13);
  const Tensor tensor = data->read(1).inputs[0];
  EXPECT_EQ(tensor.dims(), (std::vector<int64_t>{1, 1, 13, 19}));
  for (size_t i = 0; i < 13 * 19; ++i) {
    const uint8_t* p = &image.rgb[3 * i];
    // numpy: (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16, as Pillow's convert("L")
    ASSERT_EQ(tensor.values<float>()[i], (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16) << i;
  }
  const std::vector<ValueInfo> open{input("x", {kBatch, {-1, ""}, {-1, ""}, {-1, ""}})};
  EXPECT_EQ(open_dataset(folder.path, open)->read(0).inputs[0].dims()[1], 3);
  const std::string recipe = folder.write("p.json", R"({"channel_order":"grey","layout":"nhwc","scale":1,"mean":[1]})");
  const Tensor asked = open_dataset(folder.path, open, {.preprocess = recipe})->read(1).inputs[0];
  EXPECT_EQ(asked.dims(), (std::vector<int64_t>{1, 13, 19, 1}));
  EXPECT_EQ(asked.values<float>()[5], tensor.values<float>()[5] - 1);
}

}  // namespace
}  // namespace seqto::internal
