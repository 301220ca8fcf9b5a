// What a model is for, found from its graph and its first answer; embeddings and what they retrieve.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "data/state_mark.h"
#include "metrics/loss/compare_rows.h"
#include "metrics/loss/output_values.h"
#include "metrics/loss/pooling.h"
#include "seqto/error.h"
#include "seqto/task.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

Tensor floats(std::vector<int64_t> dims, std::vector<float> values) { return float_tensor(std::move(dims), values); }

Tensor ones(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  return floats(dims, std::vector<float>(static_cast<size_t>(count), 1));
}

Model ending(const std::string& head, const std::string& weight = "float[4,9] w") {
  return parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (int64[1,3] ids) => (float[1,3,9] y) <" + weight +
      ", float[9] b = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float s = {2}, float[7,4] table> { e = Gather(table, ids) " + head +
      " }");
}

TEST(ClassRows, LeaveAModelThroughAProductOrASoftmax) {
  EXPECT_TRUE(gives_class_rows(ending("y = MatMul(e, w)")));
  EXPECT_TRUE(gives_class_rows(ending("m = MatMul(e, w) a = Add(b, m) d = Div(a, s) t = Tanh(d) y = Mul(t, s)")));
  EXPECT_TRUE(gives_class_rows(ending("m = MatMul(e, w) r = Relu(m) y = LogSoftmax<axis = -1>(r)")));
  EXPECT_FALSE(gives_class_rows(ending("m = MatMul(e, w) y = Mul(m, b)"))) << "a normalization's weight";
  EXPECT_FALSE(gives_class_rows(ending("m = MatMul(e, w) y = Relu(m)")));
  EXPECT_FALSE(gives_class_rows(ending("m = MatMul(e, w) y = Softmax<axis = 1>(m)")));
  const Model features = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,3,4] x) => (float[1,3,9] y) <float[4,9] w> { y = MatMul(x, w) })");
  EXPECT_FALSE(gives_class_rows(features)) << "a series of numbers";
}

Outputs answer(const std::vector<Tensor>& tensors) {
  Outputs outputs;
  internal::append_outputs(outputs, tensors, "[test]");
  return outputs;
}

const Model& image_model() {
  static const Model kModel = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x) => (float[1,4] y, float[1,4] z) { y = Relu(x) z = Relu(x) })");
  return kModel;
}

std::string task_of(const Model& model, const std::vector<Tensor>& tensors, std::vector<int64_t> tokens = {},
                    std::vector<Tensor> inputs = {}) {
  Sample sample;
  sample.inputs = std::move(inputs);
  sample.tokens = std::move(tokens);
  const Outputs outputs = answer(tensors);
  return std::string(find_reading({}, model, {.outputs = outputs, .sample = sample}).task->name);
}

TEST(Task, FollowsTheOutputs) {
  const auto of = [](std::vector<std::vector<int64_t>> outputs) {
    std::vector<Tensor> tensors;
    for (const auto& dims : outputs) tensors.push_back(ones(dims));
    return task_of(image_model(), tensors);
  };
  EXPECT_EQ(of({{1, 10}}), "classify");
  EXPECT_EQ(of({{1, 1000, 1, 1}}), "classify");
  EXPECT_EQ(of({{1, 1}}), "regress");
  EXPECT_EQ(of({{1, 84, 2100}}), "raw");
  EXPECT_EQ(of({{1, 1, 32, 32}}), "raw");
  EXPECT_EQ(of({{1, 10}, {1, 4}}), "raw");
}

TEST(Task, StatesAreNoAnswers) {
  const Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x, float[1,8] h) => (float[1,4] y, float[1,8] next) { y = Relu(x) next = Relu(h) })");
  const std::vector<Tensor> answers{ones({1, 4}), ones({1, 8})};
  EXPECT_EQ(task_of(model, answers, {}, {ones({1, 4}), internal::state_mark(3)}), "classify");
  EXPECT_EQ(task_of(model, answers, {}, {ones({1, 4}), ones({1, 8})}), "raw");
}

// Models whose output has one long axis.
TEST(Task, PositionsAreNoClasses) {
  const auto of = [](const std::string& output, const std::string& nodes, std::vector<int64_t> dims) {
    return task_of(parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (float[b,1,n] x) => (float" + output +
                                    " y) <float[1,1,3] w = {1, 2, 3}, float[4] s> { " + nodes + " }"),
                   {ones(dims)});
  };
  EXPECT_EQ(of("[b,1,n]", "y = Sigmoid(x)", {1, 1, 160}), "raw") << "as long as the input";
  EXPECT_EQ(of("[b,1,m]", "c = ConvTranspose(x, w) r = Relu(c) y = Tanh(r)", {1, 1, 160}), "raw");
  EXPECT_EQ(of("[b,1,m]", "y = Conv(x, w)", {1, 1, 160}), "raw");
  EXPECT_EQ(of("[b,m]", "c = Conv(x, w) f = Flatten(c) y = Tanh(f)", {1, 160}), "raw");
  EXPECT_EQ(of("[b,m]", "c = Conv(x, w) y = Flatten(c)", {1, 160}), "classify");
  EXPECT_EQ(of("[b,m,k]", "y = Conv(x, w)", {1, 10, 1}), "classify") << "pooled before";
}

TEST(Task, TargetsAreNoClasses) {
  const Outputs outputs = answer({ones({1, 12})});
  Sample sample;
  sample.target.resize(12);
  EXPECT_EQ(find_reading({}, image_model(), {.outputs = outputs, .sample = sample}).task->name, "regress");
  sample.label = 3;
  EXPECT_EQ(find_reading({}, image_model(), {.outputs = outputs, .sample = sample}).task->name, "classify");
}

TEST(Task, TargetsOfAnotherLengthOrOfShares) {
  const auto of = [](const Model& model, const std::vector<int64_t>& dims, std::vector<float> target) {
    const Outputs outputs = answer({ones(dims)});
    const Sample sample{.target = std::move(target)};
    return find_reading({}, model, {.outputs = outputs, .sample = sample}).task->name;
  };
  const Model tags = ending("y = MatMul(e, w)");
  const Model map = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,3,4,4] x) => (float[1,2,4,4] y) <float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}> {
  m = Conv(x, w) y = Softmax<axis = 1>(m) })");
  EXPECT_EQ(of(tags, {1, 3, 9}, {2, 0, 5}), "classify") << "a tag for each token";
  EXPECT_EQ(of(map, {1, 2, 4, 4}, std::vector<float>(16, 1)), "segment") << "a class for each pixel";
  EXPECT_EQ(of(image_model(), {1, 4}, {0, 0, 1, 0}), "classify") << "one-hot";
  EXPECT_EQ(of(tags, {1, 2, 2}, {0, 1, 1, 0}), "classify") << "one-hot for each token";
  EXPECT_EQ(of(image_model(), {1, 4}, {0, 3, 1, 0}), "regress");
  EXPECT_EQ(of(image_model(), {1, 1}, {1}), "regress");
}

TEST(Task, AnOutputCalledAnEmbedding) {
  const auto of = [](const std::string& name, const std::vector<Tensor>& answers, const std::string& second = "z") {
    Model model = image_model();
    model.graph.outputs[0].name = name;
    model.graph.outputs[1].name = second;
    return task_of(model, answers);
  };
  for (const char* name : {"text_embeds", "image_embeds", "sentence_embedding", "embedding", "embeddings"})
    EXPECT_EQ(of(name, {ones({1, 8})}), "embed") << name;
  EXPECT_EQ(of("text_embeds", {ones({1, 8}), ones({1, 3, 8})}, "last_hidden_state"), "embed");
  EXPECT_EQ(of("text_embeds", {ones({1, 8}), ones({1, 8})}, "image_embeds"), "raw") << "two answers";
  EXPECT_EQ(of("embedding", {ones({1, 8}), ones({1, 5})}, "logits"), "raw") << "a face and its age";
  EXPECT_EQ(of("embedding", {ones({1, 8}), ones({1, 2, 4, 4})}, "present.0.key"), "embed") << "no answer";
  EXPECT_EQ(of("embeddings", {ones({1, 8, 4, 4})}), "raw") << "a map";
  EXPECT_EQ(of("scores", {ones({1, 8})}), "classify");
  const Model text = [] {
    Model model = ending("m = MatMul(e, w) y = Identity(m)");
    model.graph.outputs[0].name = "text_embeds";
    return model;
  }();
  EXPECT_EQ(task_of(text, {ones({1, 9})}, {1, 2, 3}), "embed") << "CLIP's, behind a product";
}

TEST(Task, AnErrorRateOfWordsReadsFrames) {
  const auto of = [](const std::vector<int64_t>& dims, const std::string& metric) {
    const Outputs outputs = answer({ones(dims)});
    return find_reading({.metrics = {metric}}, image_model(), {.outputs = outputs, .sample = {}}).task->name;
  };
  EXPECT_EQ(of({1, 50, 32}, "wer=vocab.json"), "transcribe");
  EXPECT_EQ(of({1, 50, 32}, "cer=vocab.json"), "transcribe");
  EXPECT_EQ(of({1, 50, 32}, "mae"), "raw");
  EXPECT_EQ(of({1, 10}, "wer=vocab.json"), "classify");
}

// Scores of four classes at each of three positions, highest at `first`.
Tensor scores(const std::vector<size_t>& first) {
  std::vector<float> values(first.size() * 4);
  for (size_t i = 0; i < first.size(); ++i) values[4 * i + first[i]] = 5;
  return floats({1, static_cast<int64_t>(first.size()), 4}, values);
}

TEST(Task, OfTokenModels) {
  const Model rows = ending("y = MatMul(e, w)"), features = ending("m = MatMul(e, w) y = Mul(m, b)");
  EXPECT_EQ(task_of(rows, {scores({2, 3, 0})}, {1, 2, 3}), "generate");
  EXPECT_EQ(task_of(rows, {scores({1, 2, 3})}, {1, 2, 3}), "classify") << "a masked model foretells the token itself";
  EXPECT_EQ(task_of(rows, {scores({2, 3, 0})}, {1, 7, 3}), "classify") << "fewer classes than tokens";
  EXPECT_EQ(task_of(rows, {scores({2, 3, 0})}), "classify") << "no tokens are known";
  EXPECT_EQ(task_of(features, {scores({2, 3, 0})}, {1, 2, 3}), "embed");
  EXPECT_EQ(task_of(features, {ones({1, 9})}, {1, 2, 3}), "embed");
  EXPECT_EQ(task_of(features, {ones({1, 1, 800})}, {1, 2, 3}), "raw") << "a sound";
  EXPECT_EQ(task_of(features, {ones({1, 1, 8})}, {1}), "embed") << "of a text of one token";
  EXPECT_EQ(task_of(rows, {ones({1, 9})}, {1, 2, 3}), "classify");
  EXPECT_EQ(task_of(ending("m = MatMul(e, w) y = Tanh(m)"), {ones({1, 9})}, {1, 2, 3}), "embed") << "BERT's pooler";
}

TEST(Task, WholeNumbersThatAreNoText) {
  const auto of = [](const std::string& inputs, const std::string& nodes, const std::vector<int64_t>& dims = {1, 6}) {
    return task_of(parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (" + inputs +
                                    ") => (float[b,6] y) <float[6,6] w, float[9,6] table> { " + nodes + " }"),
                   {ones(dims)});
  };
  const std::string table = "float[b,6] num, int64[b,2] cat", product = "m = MatMul(num, w) ";
  EXPECT_EQ(of(table, product + "y = Tanh(m)"), "raw");
  EXPECT_EQ(of(table, product + "y = Relu(m)"), "classify");
  EXPECT_EQ(of(table, product + "y = Mul(m, num)", {1, 4, 6}), "raw");
  EXPECT_EQ(of("float[b,6] num, int64 count", product + "y = Relu(m)"), "classify");
  const std::string mean = "e = Gather(table, input_ids) s = ReduceMean<axes = [1]>(e) y = Relu(s)";
  EXPECT_EQ(of("int64[b,n] input_ids, float[b,6] style", mean), "embed");
  EXPECT_EQ(of("int64[b,n] input_ids, float[b,n] attention_mask", mean), "embed");
}

TEST(Task, LabelsThatDoNotExcludeEachOther) {
  const Model labels = ending("m = MatMul(e, w) y = Sigmoid(m)");
  EXPECT_EQ(task_of(labels, {ones({1, 9})}, {1, 2, 3}), "raw");
  EXPECT_EQ(task_of(labels, {ones({1, 3, 9})}, {1, 2, 3}), "raw") << "of each token";
  EXPECT_EQ(task_of(labels, {ones({1, 1})}), "regress");
  EXPECT_EQ(task_of(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x) => (float[1,4] y) { r = Relu(x) y = Sigmoid(r) })"),
                    {ones({1, 4})}),
            "raw");
  const Outputs outputs = answer({ones({1, 9})});
  Sample sample;
  sample.label = 3;
  EXPECT_EQ(find_reading({}, labels, {.outputs = outputs, .sample = sample}).task->name, "classify");
}

TEST(Task, PooledFeaturesBesideThoseOfTokensAreAnEmbedding) {
  const Model features = ending("m = MatMul(e, w) y = Mul(m, b)");
  EXPECT_EQ(task_of(features, {scores({2, 3, 0}), ones({1, 4})}, {1, 2, 3}), "embed");
  EXPECT_EQ(task_of(features, {scores({2, 3, 0}), scores({2, 3, 0})}, {1, 2, 3}), "raw");
  EXPECT_EQ(task_of(image_model(), {ones({1, 3, 4}), ones({1, 4})}), "raw") << "of no text";
}

TEST(Task, IsWhatTheConfigurationBesideTheModelSays) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "onnx");
  const auto of = [&](const std::string& config, const Model& model, const Tensor& tensor) {
    write_file_atomic(folder.path / "config.json", config);
    const Outputs outputs = answer({tensor});
    const FirstAnswer first{.outputs = outputs, .sample = {}, .model = folder.path / "onnx/model.onnx"};
    return find_reading({}, model, first).task->name;
  };
  const std::string ctc = R"({"architectures": ["Wav2Vec2ForCTC"]})", gpt = R"({"architectures": ["GPT2LMHeadModel"]})";
  const Model text = ending("y = MatMul(e, w)");
  EXPECT_EQ(of(R"({"problem_type": "multi_label_classification"})", image_model(), ones({1, 10})), "raw");
  EXPECT_EQ(of(R"({"problem_type": "single_label_classification"})", image_model(), ones({1, 10})), "classify");
  EXPECT_EQ(of(R"({"problem_type": "regression"})", image_model(), ones({1, 3})), "regress");
  EXPECT_EQ(of(ctc, image_model(), ones({1, 50, 32})), "transcribe");
  EXPECT_EQ(of(ctc, image_model(), ones({1, 32})), "classify") << "no frames";
  EXPECT_EQ(of(gpt, text, scores({1, 2, 3})), "generate") << "whatever untrained weights foretell";
  EXPECT_EQ(of(gpt, image_model(), ones({1, 50, 32})), "raw") << "it reads no tokens";
  EXPECT_EQ(of(gpt, ending("m = MatMul(e, w) y = Mul(m, b)"), scores({1, 2, 3})), "embed") << "Qwen3-Embedding";
  Model unknown = ending("m = MatMul(e, w) logits = Relu(m)");
  unknown.graph.outputs[0].name = "logits";
  EXPECT_EQ(of(gpt, unknown, scores({1, 2, 3})), "generate") << "behind what is not known";
  EXPECT_EQ(of("[]", image_model(), ones({1, 10})), "classify");
  EXPECT_EQ(of("{", image_model(), ones({1, 10})), "classify");
  EXPECT_EQ(of(R"({"architectures": [], "problem_type": 3})", image_model(), ones({1, 10})), "classify");
}

TEST(Task, WhatAModelRemembersIsNoAnswer) {
  Model model = ending("y = MatMul(e, w)");
  for (const char* name : {"present.0.key", "present.0.value"}) model.graph.outputs.push_back({.name = name});
  EXPECT_EQ(task_of(model, {scores({2, 3, 0}), ones({1, 2, 3, 4}), ones({1, 2, 3, 4})}, {1, 2, 3}), "generate");
}

TEST(Task, AsAskedFor) {
  const Outputs outputs = answer({scores({2, 3, 0})});
  Sample sample;
  const FirstAnswer first{.outputs = outputs, .sample = sample};
  const Reading reading = find_reading({.task = "embed", .pooling = "first"}, image_model(), first);
  EXPECT_EQ(reading.task->loss, "cosine");
  EXPECT_EQ(reading.pooling, Pooling::kFirst);
  EXPECT_TRUE(reading.reason.empty());
  EXPECT_THROW(find_reading({.task = "embd"}, image_model(), first), Error);
  EXPECT_THROW(find_reading({.task = "embed", .pooling = "max"}, image_model(), first), Error);
  EXPECT_THROW(find_reading({.task = "classify", .pooling = "mean"}, image_model(), first), Error);
  const Outputs vector = answer({ones({1, 9})});
  EXPECT_THROW(find_reading({.task = "embed", .pooling = "mean"}, image_model(), {.outputs = vector, .sample = sample}),
               Error);
}

TEST(Task, PoolsAsSentenceTransformersNoteIt) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "1_Pooling");
  fs::create_directories(folder.path / "onnx");
  write_file_atomic(folder.path / "1_Pooling/config.json",
                    R"({"word_embedding_dimension": 4, "pooling_mode_cls_token": true,
                                  "pooling_mode_mean_tokens": false})");
  const Outputs outputs = answer({scores({2, 3, 0})});
  Sample sample;
  const auto pooling_in = [&](const fs::path& folder) {
    return find_reading({.task = "embed"}, image_model(),
                        {.outputs = outputs, .sample = sample, .model = folder / "model.onnx"})
        .pooling;
  };
  EXPECT_EQ(pooling_in(folder.path), Pooling::kFirst);
  EXPECT_EQ(pooling_in(folder.path / "onnx"), Pooling::kFirst);
  EXPECT_EQ(pooling_in(fs::temp_directory_path() / "nowhere"), Pooling::kMean);
}

TEST(Task, EmbeddingsAreOfTheCountedPositionsAndOfLengthOne) {
  const std::vector<Tensor> tensors{floats({1, 3, 2}, {3, 0, 0, 4, 100, 100})};
  const auto embedding = [&](Pooling pooling) {
    Outputs outputs{.pooling = pooling};
    internal::append_outputs(outputs, tensors, "[test]", std::vector<char>{1, 1, 0});
    EXPECT_EQ(outputs.dims, (std::vector<int64_t>{1, 2}));
    return std::vector<float>(outputs.row(0).begin(), outputs.row(0).end());
  };
  EXPECT_EQ(embedding(Pooling::kMean), (std::vector<float>{0.6f, 0.8f}));
  EXPECT_EQ(embedding(Pooling::kFirst), (std::vector<float>{1, 0}));
  EXPECT_EQ(embedding(Pooling::kLast), (std::vector<float>{0, 1}));
  EXPECT_EQ(internal::pooled(std::vector<float>{0, 0}, 2, Pooling::kWhole), (std::vector<float>{0, 0}));
}

TEST(TopkOverlap, IsTheShareOfTheSameNeighbours) {
  // Directions in degrees. With five samples two neighbours each are looked at.
  const auto answers = [](const std::vector<double>& degrees) {
    Answers all({"y"});
    for (const double d : degrees) {
      const double angle = d * std::acos(-1) / 180;
      const float length = static_cast<float>(1 + d);  // does not count
      all.append(std::vector{floats(
          {1, 2}, {length * static_cast<float>(std::cos(angle)), length * static_cast<float>(std::sin(angle))})});
    }
    return all;
  };
  const Metrics metrics = make_metrics({.metrics = {"topk_overlap"}});
  const Answers reference = answers({0, 10, 24, 50, 88});
  const std::vector<Truth> truths(5);
  EXPECT_EQ(metrics[0]->score(reference, reference, truths).value, 1);
  // The last is now between the first two: it is a neighbour of both, and they are its own.
  const Score moved = metrics[0]->score(answers({0, 10, 24, 50, 5}), reference, truths);
  EXPECT_EQ(moved.samples, (std::vector<double>{0.5, 0.5, 0.5, 0.5, 0}));
  EXPECT_DOUBLE_EQ(moved.value, 0.4);
  EXPECT_TRUE(metrics[0]->higher_is_better());
  const std::vector<Truth> two(2);
  EXPECT_THROW(metrics[0]->score(answers({0, 1}), answers({0, 1}), two), Error);
}

TEST(RowLosses, AreQuantilesAndMeansByPosition) {
  Outputs reference, candidate;
  const auto append = [](Outputs& to, const std::vector<size_t>& first) {
    internal::append_outputs(to, std::vector{scores(first)}, "[test]");
  };
  append(reference, {0, 0, 0}), append(candidate, {0, 1, 0});
  append(reference, {0, 0}), append(candidate, {0, 0});
  const auto rows = internal::compare_rows(reference, candidate).rows;
  ASSERT_TRUE(rows);
  const double e5 = std::exp(5), wrong = 5 * (e5 - 1) / (e5 + 3);  // KL of 5, 0, 0, 0 from 0, 5, 0, 0
  EXPECT_EQ(rows->width, 1);
  ASSERT_EQ(rows->by_position.size(), 3);
  EXPECT_EQ(rows->by_position[0], 0);
  EXPECT_NEAR(rows->by_position[1], wrong / 2, 1e-9);
  EXPECT_EQ(rows->by_position[2], 0);
  EXPECT_NEAR(rows->largest, wrong, 1e-9);
  EXPECT_NEAR(rows->q99, 0.96 * wrong, 1e-9);  // numpy's: between the fourth and fifth of five
  Outputs single;
  internal::append_outputs(single, std::vector{ones({1, 4})}, "[test]");
  EXPECT_FALSE(internal::compare_rows(single, single).rows);
}

}  // namespace
}  // namespace seqto
