// Sound files as data sets: formats, windows, sample rates, labels.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "data/pictures.h"
#include "seqto/dataset.h"

namespace seqto::internal {
namespace {

std::string little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// A WAV file as the RIFF specification has it; `bits` of whole numbers, or 0 for 32-bit floats. Values from -1 to 1.
std::string wav(int bits, const std::vector<float>& values, int channels = 1, int rate = 16000) {
  std::string data;
  const int bytes = bits == 0 ? 4 : bits / 8;
  for (const float value : values) {
    if (bits == 0) data += little(std::bit_cast<uint32_t>(value), 4);
    else if (bits == 8) data += little(static_cast<uint64_t>(value * 128 + 128), 1);  // alone without a sign
    else data += little(static_cast<uint64_t>(static_cast<int64_t>(std::ldexp(value, bits - 1))), bytes);
  }
  std::string head = "WAVEfmt " + little(16, 4) + little(bits == 0 ? 3 : 1, 2) + little(channels, 2) + little(rate, 4) +
                     little(rate * channels * bytes, 4) + little(channels * bytes, 2) + little(8 * bytes, 2) + "data" +
                     little(data.size(), 4);
  return "RIFF" + little(head.size() + data.size(), 4) + head + data;
}

std::vector<float> ramp(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i - count / 2) / 64);
  return values;
}

ValueInfo input(std::vector<Dimension> shape, DataType type = DataType::kFloat) {
  return {.name = "audio", .type = type, .shape = std::move(shape)};
}
const Dimension kBatch{-1, "batch"}, kOpen{-1, "length"};

std::unique_ptr<Dataset> open(const std::filesystem::path& path, const ValueInfo& info,
                              const DatasetOptions& options = {}) {
  return open_dataset(path, std::span(&info, 1), options);
}

TEST(Audio, AMaskSaysWhatIsSound) {
  const Folder folder("seqto-masked");
  const std::string file = folder.write("a.wav", wav(16, ramp(60)));
  const ValueInfo sound = input({kBatch, kOpen});
  const ValueInfo mask{.name = "attention_mask", .type = DataType::kInt64, .shape = std::vector{kBatch, kOpen}};
  std::vector<int64_t> wanted(100);
  std::fill_n(wanted.begin() + 20, 60, 1);
  for (const bool first : {false, true}) {
    const std::vector<ValueInfo> inputs = first ? std::vector{mask, sound} : std::vector{sound, mask};
    const size_t at = first ? 0 : 1;
    const Sample cut = open_dataset(file, inputs, {.audio = {.window = 100, .lead = 20}})->read(0);
    EXPECT_EQ(cut.inputs.at(at).dims(), (std::vector<int64_t>{1, 100}));
    EXPECT_TRUE(std::ranges::equal(cut.inputs.at(at).values<int64_t>(), wanted));
    EXPECT_EQ(cut.inputs.at(1 - at).values<float>()[20], ramp(60)[0]);
    const Sample whole = open_dataset(file, inputs, {})->read(0);
    EXPECT_TRUE(std::ranges::equal(whole.inputs.at(at).values<int64_t>(), std::vector<int64_t>(60, 1)));
  }
  const ValueInfo other{.name = "speaker", .type = DataType::kInt64, .shape = std::vector{kBatch, kOpen}};
  EXPECT_THROW(open_dataset(file, std::vector{sound, other}, {}), Error);
}

TEST(Audio, EveryPcmFormatGivesTheSameValues) {
  const Folder folder("seqto-wav");
  const std::vector<float> values = ramp(100);
  for (const int bits : {8, 16, 24, 32, 0}) {
    const std::string file = folder.write("a.wav", wav(bits, values));
    const Tensor tensor = open(file, input({kBatch, {100, ""}}))->read(0).inputs[0];
    ASSERT_EQ(tensor.dims(), (std::vector<int64_t>{1, 100}));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(tensor.values<float>()[i], values[i]) << bits << " " << i;
  }
  const std::string file = folder.write("a.wav", wav(16, values));
  const Tensor whole = open(file, input({kBatch, {100, ""}}, DataType::kInt16))->read(0).inputs[0];
  EXPECT_EQ(whole.values<int16_t>()[99], 49 * 512);
  const std::string floats = folder.write("f.wav", wav(0, {0.5f, -0.25f, 1.0f, -2.0f}));
  const Tensor scaled = open(floats, input({kBatch, {4, ""}}, DataType::kInt16))->read(0).inputs[0];
  const auto found = scaled.values<int16_t>();
  EXPECT_EQ(std::vector(found.begin(), found.end()), (std::vector<int16_t>{16384, -8192, 32767, -32768}));
}

TEST(Audio, IsCutIntoWindows) {
  const Folder folder("seqto-windows");
  folder.write("b.wav", wav(0, ramp(20)));
  folder.write("a.WAV", wav(0, ramp(5)));
  folder.write("notes.txt", "no sound");
  const DatasetOptions options{.audio = {.window = 8, .hop = 5, .lead = 3}};
  const auto data = open(folder.path, input({kBatch, kOpen}), options);
  // a: 3 zeros and 5 samples, one window; b: 23 values, windows at 0, 5, 10 and 15.
  ASSERT_EQ(data->size(), 5);
  const Sample first = data->read(0);
  EXPECT_EQ(first.name, "a.WAV");
  EXPECT_EQ(first.inputs[0].values<float>()[2], 0);
  EXPECT_EQ(first.inputs[0].values<float>()[3], ramp(5)[0]);
  const std::vector<float> b = ramp(20);
  for (int64_t w = 0; w < 4; ++w) {
    const Sample sample = data->read(1 + w);
    EXPECT_EQ(sample.name, "b.wav[" + std::to_string(w) + "]");
    EXPECT_EQ(sample.sequence, 1);
    EXPECT_EQ(sample.position, w);
    EXPECT_EQ(sample.source, 1);
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t at = w * 5 - 3 + i;
      EXPECT_EQ(sample.inputs[0].values<float>()[i], at < 0 ? 0 : b[at]) << w << " " << i;
    }
  }
  // In folders, as corpora have them.
  const Folder deep("seqto-corpus");
  std::filesystem::create_directories(deep.path / "84" / "121123");
  deep.write("84/121123/84-0.wav", wav(0, ramp(9)));
  const auto nested = open(deep.path, input({kBatch, kOpen}), options);
  ASSERT_GT(nested->size(), 0);
  std::filesystem::create_directories(deep.path / ".trash");
  deep.write(".trash/old.wav", wav(0, ramp(9)));
  EXPECT_EQ(open(deep.path, input({kBatch, kOpen}), options)->size(), nested->size());
  EXPECT_TRUE(nested->read(0).name.starts_with("84/121123/84-0.wav"));
  // What is shorter than a window is filled up.
  const auto padded = open(folder.path / "a.WAV", input({kBatch, {8, ""}}));
  ASSERT_EQ(padded->size(), 1);
  EXPECT_EQ(padded->read(0).source, -1) << "a whole file";
  EXPECT_EQ(padded->read(0).inputs[0].values<float>()[4], ramp(5)[4]);
  EXPECT_EQ(padded->read(0).inputs[0].values<float>()[5], 0);
  EXPECT_NE(open(folder.path, input({kBatch, kOpen}), {.audio = {.window = 8, .hop = 4, .lead = 3}})->fingerprint(),
            data->fingerprint());
}

TEST(Audio, ChannelsBecomeAnAxis) {
  const Folder folder("seqto-channels");
  const std::string file = folder.write("a.wav", wav(16, ramp(20), 2));
  const Tensor tensor = open(file, input({kBatch, {2, ""}, {10, ""}}))->read(0).inputs[0];
  EXPECT_EQ(tensor.dims(), (std::vector<int64_t>{1, 2, 10}));
  EXPECT_EQ(tensor.values<float>()[1], ramp(20)[2]);
  EXPECT_EQ(tensor.values<float>()[10], ramp(20)[1]);
  EXPECT_PRED2(says, error_of([&] { open(file, input({kBatch, {10, ""}})); }), "windows of 10 with 2 channels found");
  const std::string mono = folder.write("m.wav", wav(16, ramp(20)));
  EXPECT_EQ(open(mono, input({kBatch, {1, ""}, {20, ""}}))->read(0).inputs[0].dims(), (std::vector<int64_t>{1, 1, 20}));
  EXPECT_PRED2(says, error_of([&] { open(folder.path, input({kBatch, {2, ""}, {10, ""}})); }),
               "m.wav: 1 channels found");
}

TEST(Audio, AModelOfAnyLengthReadsWholeFiles) {
  const Folder folder("seqto-audio-whole");
  folder.write("a.wav", wav(16, ramp(20)));
  folder.write("b.wav", wav(16, ramp(30)));
  const auto data = open(folder.path, input({kBatch, kOpen}));
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->read(0).inputs[0].dims(), (std::vector<int64_t>{1, 20}));
  EXPECT_EQ(data->read(1).inputs[0].dims(), (std::vector<int64_t>{1, 30}));
  EXPECT_EQ(data->read(1).name, "b.wav");
}

TEST(Audio, AnExtractorsFileScalesEachWindow) {
  const Folder folder("seqto-audio-extractor");
  const std::string file = folder.write("a.wav", wav(16, ramp(20), 1, 16000));
  const auto extractor = [&](const std::string& more) {
    return folder.write(
        "p.json", R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000)" + more + "}");
  };
  const auto values = [&](const std::string& more) {
    return open(file, input({kBatch, kOpen}), {.preprocess = extractor(more)})->read(0).inputs[0];
  };
  const Tensor scaled = values("");
  double sum = 0, squares = 0;
  for (const float v : scaled.values<float>()) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 20, 0, 1e-5);
  EXPECT_NEAR(squares / 20, 1, 1e-3);
  EXPECT_EQ(values(R"(, "do_normalize": false)").values<float>()[1], ramp(20)[1]);
  EXPECT_PRED2(says, error_of([&] { values(R"(, "sampling_rate": 8000)"); }), "16000 Hz found; 8000 Hz expected");
}

// As transformers: with a mask only the sound is scaled, and zeros stand behind it; without, they are scaled along.
TEST(Audio, WhatFillsUpAWindowIsScaledAlongUnlessAMaskHidesIt) {
  const Folder folder("seqto-audio-masked");
  const std::string file = folder.write("a.wav", wav(16, ramp(20), 1, 16000));
  const auto values = [&](const char* masked) {
    const std::string extractor =
        folder.write("p.json", std::string(R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor",
                                              "return_attention_mask": )") +
                                   masked + "}");
    const auto data = open(file, input({kBatch, {30, ""}}), {.preprocess = extractor});
    const Tensor tensor = data->read(0).inputs[0];
    const auto found = tensor.values<float>();
    return std::pair(std::vector(found.begin(), found.end()), data->fingerprint());
  };
  for (const bool masked : {false, true}) {
    const size_t counted = masked ? 20 : 30;
    std::vector<float> expected = ramp(20);
    expected.resize(30);
    double mean = 0, variance = 0;
    for (size_t i = 0; i < counted; ++i) mean += expected[i] / static_cast<double>(counted);
    for (size_t i = 0; i < counted; ++i) variance += std::pow(expected[i] - mean, 2) / static_cast<double>(counted);
    const auto found = values(masked ? "true" : "false").first;
    for (size_t i = 0; i < 30; ++i)
      EXPECT_NEAR(found[i], i < counted ? (expected[i] - mean) / std::sqrt(variance + 1e-7) : 0, 1e-5) << masked << i;
  }
  EXPECT_NE(values("true").second, values("false").second);
}

TEST(Audio, AFixedBatchGetsSoManyAtOnce) {
  const Folder folder("seqto-audio-batch");
  folder.write("a.wav", wav(16, ramp(20)));
  folder.write("b.wav", wav(16, ramp(50)));
  const auto data = open(folder.path, input({{3, ""}, {10, ""}}));
  ASSERT_EQ(data->size(), 2) << "seven windows";
  const Tensor second = data->read(1).inputs[0];
  EXPECT_EQ(second.dims(), (std::vector<int64_t>{3, 10}));
  EXPECT_EQ(second.values<float>()[0], ramp(50)[10]);
  EXPECT_EQ(second.values<float>()[10], ramp(50)[20]);
  EXPECT_PRED2(says, error_of([&] { open(folder.path, input({{2, ""}, {10, ""}})); }),
               "windows of 10 with 1 channel found; the model input 'audio' [2, 10] expected");
  EXPECT_EQ(open(folder.path, input({{2, ""}, {1, ""}, {10, ""}}))->read(0).inputs[0].dims(),
            (std::vector<int64_t>{2, 1, 10}));
}

TEST(Audio, TranscriptsAreThoseOfWholeFiles) {
  const Folder folder("seqto-audio-transcripts");
  folder.write("a.wav", wav(16, ramp(20)));
  folder.write("b.wav", wav(16, ramp(10)));
  const std::string labels = folder.write("l.csv", "file,transcript\na.wav,\"yes, no\"\nb.wav,maybe\n");
  const auto whole = open(folder.path, input({kBatch, kOpen}), {.labels = labels});
  EXPECT_FALSE(whole->has_labels());
  EXPECT_EQ(whole->read(0).transcript, "yes, no");
  const auto windows = open(folder.path, input({kBatch, {10, ""}}), {.labels = labels});
  EXPECT_FALSE(windows->read(0).transcript) << "of a part nobody knows";
  EXPECT_EQ(windows->read(windows->size() - 1).transcript, "maybe");
  const auto cut = open(folder.path, input({kBatch, {15, ""}}), {.labels = labels});
  ASSERT_EQ(cut->size(), 2) << "what is left of a.wav makes no second window";
  EXPECT_FALSE(cut->read(0).transcript) << "its end is not heard";
  EXPECT_EQ(cut->read(1).transcript, "maybe");
}

TEST(Audio, TargetsOfAnArrayAreThoseOfTheSamplesInTheirOrder) {
  const Folder folder("seqto-audio-targets");
  folder.write("a.wav", wav(16, ramp(20)));
  folder.write("b.wav", wav(16, ramp(30)));
  const auto targets = folder.path / "t.npz";
  const std::vector<Initializer> arrays{{"y", float_tensor({5, 1}, {0, 1, 2, 3, 4})}};
  save_npz(targets, arrays);
  const auto data = open(folder.path, input({kBatch, {10, ""}}), {.labels = targets.string()});
  ASSERT_EQ(data->size(), 5);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(data->read(i).target, std::vector<float>{static_cast<float>(i)});
}

TEST(Audio, LabelsAreThoseOfTheFiles) {
  const Folder folder("seqto-audio-labels");
  folder.write("a.wav", wav(16, ramp(20)));
  folder.write("b.wav", wav(16, ramp(30)));
  const std::string labels = folder.write("l.csv", "file,label\nb.wav,4\na.wav,2\n");
  const auto data = open(folder.path, input({kBatch, {10, ""}}), {.labels = labels});
  ASSERT_EQ(data->size(), 5);
  EXPECT_TRUE(data->has_labels());
  EXPECT_EQ(data->read(2).label, 4);
  EXPECT_EQ(data->read(3).label, 2);
  EXPECT_EQ(data->read(3).sequence, 1);
}

TEST(Audio, FoldersAreClasses) {
  const Folder folder("seqto-audio-classes");
  for (const char* name : {"no", "yes"}) {
    std::filesystem::create_directories(folder.path / name);
    folder.write(std::string(name) + "/1.wav", wav(16, ramp(20)));
  }
  const auto data = open(folder.path, input({kBatch, {10, ""}}));
  ASSERT_EQ(data->size(), 4);
  EXPECT_EQ(data->kind(1).kind, "no");
  EXPECT_EQ(data->kind(2).kind, "yes");
  EXPECT_EQ(data->kind(2).sequence, 1);
  EXPECT_FALSE(data->has_labels());
}

TEST(Audio, ErrorsSayWhatIsWrong) {
  const Folder folder("seqto-audio-errors");
  const std::string file = folder.write("a.wav", wav(16, ramp(20), 1, 8000));
  const ValueInfo info = input({kBatch, {10, ""}});
  const auto error = [&](const DatasetOptions& options) { return error_of([&] { open(file, info, options); }); };
  EXPECT_PRED2(says, error({.audio = {.rate = 16000}}), "a.wav: a sample rate of 8000 Hz found; 16000 Hz expected");
  EXPECT_PRED2(says, error({.preprocess = "imagenet"}), "imagenet: preprocessing of sound by that name, and no such");
  const std::string other = folder.write("p.json", R"({"feature_extractor_type": "EncodecFeatureExtractor"})");
  EXPECT_PRED2(says, error({.preprocess = other}), "the extractor EncodecFeatureExtractor found");
  EXPECT_PRED2(says, error({.audio = {.hop = -1}}), "another code: [data] a window of 0, a hop of -1");
  EXPECT_PRED2(says, error_of([&] { open(file, input({kBatch, kOpen}), {.audio = {.hop = 4}}); }),
               "say it with --window");
  const std::vector<ValueInfo> two{info, {.name = "sr", .type = DataType::kInt64, .shape = std::vector<Dimension>{}}};
  EXPECT_PRED2(says, error_of([&] { open_dataset(file, two); }), "audio found for the inputs audio, sr");
  EXPECT_PRED2(says, error_of([&] { open_dataset(file, two, {.constants = {{"sr", 16000}}}); }), "16000 Hz expected");
  EXPECT_EQ(open_dataset(file, two, {.constants = {{"sr", 8000}}})->size(), 2);
  folder.write("b.wav", wav(16, ramp(20), 1, 16000));
  EXPECT_PRED2(says, error_of([&] { open(folder.path, info); }), "b.wav: a sample rate of 16000 Hz found; 8000 Hz");
  const std::string silent = folder.write("d.wav", wav(16, {}, 1, 8000));
  EXPECT_PRED2(says, error_of([&] { open(silent, input({kBatch, kOpen})); }), "d.wav: no sound found in it");
  EXPECT_EQ(open(silent, info)->size(), 1) << "a window of zeros";
  const std::string bad = folder.write("c.wav", "RIFF no sound");
  EXPECT_PRED2(says, error_of([&] { open(bad, info); }), "c.wav: ");
}

TEST(Audio, StatesAreMarkedByFileAndPosition) {
  const Folder folder("seqto-audio-states");
  folder.write("a.wav", wav(16, ramp(50)));
  folder.write("b.wav", wav(16, ramp(30)));
  const std::vector<ValueInfo> inputs{
      {.name = "state", .type = DataType::kFloat, .shape = std::vector<Dimension>{{4, ""}}}, input({kBatch, {10, ""}})};
  const auto marks = [&](StateReset reset) {
    const auto data = open_dataset(folder.path, inputs, {.states = {{"next", "state"}}, .state_reset = reset});
    std::vector<bool> follows;
    for (int64_t i = 1; i < data->size(); ++i) {
      const auto mark = [&](int64_t s) { return data->read(s).inputs[0].values<int64_t>()[0]; };
      follows.push_back(mark(i) == mark(i - 1) + 1);
    }
    return follows;
  };
  EXPECT_EQ(marks({}), (std::vector<bool>{true, true, true, true, false, true, true}));
  EXPECT_EQ(marks({.samples = 2}), (std::vector<bool>{true, false, true, false, false, true, false}));
  EXPECT_EQ(marks({.samples = 1}), std::vector<bool>(7, false));
  EXPECT_EQ(marks({.each_file = false}), std::vector<bool>(7, true));
  EXPECT_PRED2(says, error_of([&] { open_dataset(folder.path, inputs, {.states = {{"next", "states"}}}); }),
               "the input states found in --input or --state; one of the model's inputs state, audio");
  EXPECT_PRED2(says, error_of([&] {
                 open_dataset(folder.path, inputs, {.constants = {{"state", 1}}, .states = {{"next", "state"}}});
               }),
               "the input state found twice");
}

}  // namespace
}  // namespace seqto::internal
