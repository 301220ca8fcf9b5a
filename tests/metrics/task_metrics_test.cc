// Task metrics of small literals, and what pairs two candidates in them.
#include "seqto/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "metrics/task/detections.h"
#include "seqto/error.h"
#include "seqto/validate.h"

namespace seqto {
namespace {

Answers answers(const std::vector<std::vector<float>>& rows) {
  Answers result({"y"});
  for (const auto& row : rows) {
    const std::vector<Tensor> outputs{float_tensor({1, static_cast<int64_t>(row.size())}, row)};
    result.append(outputs);
  }
  return result;
}

Measurement measured(const std::string& metric, const Answers& found, const std::vector<Truth>& truths) {
  Measurement m;
  measure_task(m, make_metrics({.metrics = {metric}}), found, found, truths);
  return m;
}

TEST(TaskMetrics, ErrorsOfNumbers) {
  const Answers found = answers({{1, 2}, {3, 4}, {9, 9}});
  const std::vector<Truth> truths{{.target = {1, 4}}, {.target = {0, 4}}, {}};  // of the last nothing is known
  const Measurement mae = measured("mae", found, truths);
  EXPECT_DOUBLE_EQ(mae.metrics.at("mae"), (1 + 1.5) / 2);
  EXPECT_EQ(mae.samples.at("mae"), (std::vector<double>{1, 1.5}));
  EXPECT_TRUE(mae.lower_is_better.contains("mae"));
  const Measurement rmse = measured("rmse", found, truths);
  EXPECT_DOUBLE_EQ(rmse.metrics.at("rmse"), std::sqrt((2 + 4.5) / 2));
  EXPECT_FALSE(rmse.samples.contains("rmse"));
  EXPECT_EQ(rmse.replicates.at("rmse").size(), static_cast<size_t>(kReplicates));
  EXPECT_TRUE(rmse.intervals.at("rmse").holds(rmse.metrics.at("rmse")));
  EXPECT_THROW(measured("mae", found, {{}, {}, {}}), Error);
  EXPECT_THROW(measured("mae", found, {{.target = {1}}, {}, {}}), Error);
  EXPECT_THROW(measured("accuracy", found, truths), Error);
}

TEST(TaskMetrics, RefuseLabelsOfNoClass) {
  const auto words = [](std::vector<float> scores, int64_t label) -> std::string {
    Outputs outputs;
    outputs.append(scores);
    try {
      task_metrics(outputs, std::vector{label});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(words({1, 2, 3}, 3).find("the label 3 and a first output of 3 values found; a class from 0 to 2 expected"),
            std::string::npos);
  EXPECT_EQ(words({1, 2, 3}, 2), "");
  EXPECT_EQ(words({0.5f}, 30), "") << "the target of a regression";
  EXPECT_EQ(words({1, 2, 3}, -1), "");
}

TEST(TaskMetrics, AWholeNumberIsTheClassItself) {
  Outputs outputs{.labels = true};
  for (const float found : {3.0f, 0.0f, 2.0f, 3.0f}) outputs.append(std::vector{found});
  const auto metrics = task_metrics(outputs, std::vector<int64_t>{3, 1, 2, -1});
  EXPECT_NEAR(metrics.at("top1"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(metrics.at("f1"), 2.0 / 3, 1e-12);
  Outputs map{.labels = true};
  map.append(std::vector{1.0f, 2.0f});
  EXPECT_TRUE(task_metrics(map, std::vector<int64_t>{1}).empty()) << "a class for each pixel, and one label";
}

TEST(TaskMetrics, AccuracyOfWholeNumbers) {
  const std::vector<Truth> truths{{.label = 3}, {.label = 1}, {.label = 2}, {}};
  Answers found({"class"});
  for (const int64_t number : {3, 0, 2, 3}) found.append(std::vector{int64_tensor({1}, {number})});
  EXPECT_NEAR(measured("accuracy", found, truths).metrics.at("accuracy"), 2.0 / 3, 1e-12);
  Answers scores({"scores"});
  for (int i = 0; i < 4; ++i) scores.append(std::vector{int64_tensor({1, 4}, {0, 9, 5, 200})});
  EXPECT_NEAR(measured("accuracy", scores, truths).metrics.at("accuracy"), 1.0 / 3, 1e-12) << "of quantized outputs";
  Answers beside({"length", "scores"});
  for (int i = 0; i < 4; ++i) beside.append(std::vector{int64_tensor({1}, {3}), float_tensor({1, 4}, {0, 0, 0, 1})});
  EXPECT_NEAR(measured("accuracy", beside, truths).metrics.at("accuracy"), 1.0 / 3, 1e-12) << "scores are read";
}

TEST(TaskMetrics, FoundClassesAreNumberedAsInTheFloatModel) {
  const auto found = [](float first, float second) {
    Answers answers({"y"});
    answers.append(
        std::vector<Tensor>{float_tensor({1, 2, 6}, {0, 0, 0.5f, 0.5f, 0.9f, first, 0.5f, 0.5f, 1, 1, 0.8f, second})});
    return answers;
  };
  const std::vector<Truth> truths{
      {.boxes = {{{.right = 0.5f, .bottom = 0.5f, .label = 0, .category = 7}, {0.5f, 0.5f, 1, 1, 1, false, {}, 9}}}}};
  const auto score = [&](const Answers& candidate, const Answers& of_float, const std::string& more = "") {
    Measurement m;
    const std::string read = R"({"decode": "found", "box": "xyxy")" + more + "}";
    measure_task(m, make_metrics({.detector = read, .metrics = {"map50"}}), candidate, of_float, truths);
    return m.metrics.at("map50");
  };
  for (const auto& [first, second] : {std::pair{0.0f, 1.0f}, {1, 2}, {7, 9}}) {
    const Answers of_float = found(first, second);
    EXPECT_NEAR(score(of_float, of_float), 1, 1e-9) << first;
    EXPECT_NEAR(score(found(first, first), of_float), 0.5, 1e-9) << first;
  }
  EXPECT_EQ(score(found(0, 1), found(1, 2)), 0) << "a candidate whose classes became others";
  EXPECT_EQ(score(found(1, 2), found(1, 2), R"(, "class_numbers": "index")"), 0) << "as it was said";
}

// DETR's 91 columns are COCO's ids, of a person 1; RT-DETR's 80 are the categories in their order.
TEST(TaskMetrics, ColumnsOfScoresAreNumberedAsInTheFloatModel) {
  const std::vector<Truth> truths{
      {.boxes = {{{.right = 0.5f, .bottom = 0.5f, .label = 0, .category = 1}, {0.5f, 0.5f, 1, 1, 1, false, {}, 3}}}}};
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 2}, {1, 3}}) {
    std::vector<float> scores(8, 0.01f);
    scores[static_cast<size_t>(first)] = scores[static_cast<size_t>(4 + second)] = 0.9f;
    Answers found({"pred_boxes", "logits"});
    found.append(std::vector<Tensor>{float_tensor({1, 2, 4}, {0.25f, 0.25f, 0.5f, 0.5f, 0.75f, 0.75f, 0.5f, 0.5f}),
                                     float_tensor({1, 2, 4}, scores)});
    const std::string read = R"({"outputs": [{"name": "pred_boxes", "scores": "logits"}], "classes": 4,
                                 "objectness": false, "nms_threshold": 1})";
    Measurement m;
    const Metrics metrics = make_metrics({.detector = read, .metrics = {"map50"}});
    measure_task(m, metrics, found, found, truths);
    EXPECT_NEAR(m.metrics.at("map50"), 1, 1e-9) << first << " " << second;
    EXPECT_NE(internal::note_on_class_numbers(metrics, found, truths), "");
    const auto file = std::filesystem::temp_directory_path() / "seqto-columns.json";
    std::ofstream(file) << read;
    const Metrics told = make_metrics({.metrics = {"map50=" + file.string()}});
    std::filesystem::remove(file);
    measure_task(m, told, found, found, truths);
    EXPECT_EQ(m.metrics.at("map50") > 0.9, first == 0) << "a file's columns are numbered by their place";
    EXPECT_EQ(internal::note_on_class_numbers(told, found, truths), "");
  }
}

TEST(TaskMetrics, ABoxThatIsNoNumberIsNoHit) {
  const auto found = [](float corner) {
    Answers answers({"y"});
    answers.append(std::vector<Tensor>{float_tensor({1, 1, 6}, {corner, 0, 0.5f, 0.5f, 0.9f, 0})});
    return answers;
  };
  const std::vector<Truth> truths{{.boxes = {{{.right = 0.5f, .bottom = 0.5f, .label = 0}}}}};
  const auto score = [&](const Answers& answers) {
    Measurement m;
    const std::string read = R"({"decode": "found", "box": "xyxy", "class_numbers": "index"})";
    measure_task(m, make_metrics({.detector = read, .metrics = {"map50"}}), answers, found(0), truths);
    return m.metrics.at("map50");
  };
  EXPECT_NEAR(score(found(0)), 1, 1e-9);
  EXPECT_EQ(score(found(std::nanf(""))), 0);
}

TEST(TaskMetrics, LandmarksInSizesOfTheirBox) {
  // A box of 4 x 9, so of the size 6; one point is off by 3, two are right.
  const std::vector<Truth> truths{{.target = {0, 0, 4, 9, 2, 2}}};
  EXPECT_NEAR(measured("nme", answers({{0, 3, 4, 9, 2, 2}}), truths).metrics.at("nme"), 3.0 / 3 / 6, 1e-12);
}

TEST(TaskMetrics, WhatIsNoMeanIsPairedByResamples) {
  std::vector<std::vector<float>> near, far;
  std::vector<Truth> truths;
  for (int i = 0; i < 40; ++i) {
    const auto x = static_cast<float>(i % 7);
    near.push_back({x});
    far.push_back({x + 0.5f});
    truths.push_back({.target = {0}});
  }
  const Measurement a = measured("rmse", answers(near), truths), b = measured("rmse", answers(far), truths);
  const auto difference = paired_difference(b, a, "rmse");
  ASSERT_TRUE(difference.has_value());
  EXPECT_TRUE(difference->holds(b.metrics.at("rmse") - a.metrics.at("rmse")));
  // The two go up and down together, so that their difference is known far better than either.
  const auto width = [](const Interval& i) { return i.high - i.low; };
  EXPECT_LT(width(*difference), 0.2 * width(a.intervals.at("rmse")));
  EXPECT_FALSE(paired_difference(a, Measurement{}, "rmse").has_value());
}

// Two windows of each of 40 recordings have a truth; what one of them loses the other loses too.
TEST(TaskMetrics, WindowsOfARecordingAreDrawnTogether) {
  std::vector<std::vector<float>> found;
  std::vector<Truth> apart, together;
  for (int64_t i = 0; i < 120; ++i) {
    const bool is_right = i / 3 % 2 == 0;
    found.push_back({is_right ? 1.0f : 0.0f, is_right ? 0.0f : 1.0f});
    apart.push_back(i % 3 == 0 ? Truth{} : Truth{.label = 0, .target = {1, 0}});
    together.push_back(apart.back());
    together.back().origin = {.source = i / 3, .position = i % 3};
  }
  for (const char* metric : {"accuracy", "mae", "rmse"}) {
    const auto width = [&](const std::vector<Truth>& truths) {
      const Interval i = measured(metric, answers(found), truths).intervals.at(metric);
      return i.high - i.low;
    };
    EXPECT_NEAR(width(together) / width(apart), std::sqrt(2.0), 0.25) << metric;
  }
}

TEST(TaskMetrics, PerplexityIsOverTheTokensOfAllSequences) {
  // Of two tokens each, with scores 0 and log 3: shares of 1/4 and 3/4.
  const auto high = static_cast<float>(std::log(3));
  Answers found({"logits"});
  found.append(std::vector{float_tensor({1, 3, 2}, {0, high, high, 0, 0, 0})});
  found.append(std::vector{float_tensor({1, 2, 2}, {0, high, 9, 9})});
  const std::vector<Truth> truths{{.tokens = {0, 1, 1}}, {.tokens = {1, 0}}};
  const Measurement m = measured("perplexity", found, truths);
  // 3/4 for the token 1 behind the first, 1/4 for the next, 1/4 for the 0 of the second sample.
  EXPECT_NEAR(m.metrics.at("perplexity"), std::exp(-std::log(0.75 * 0.25 * 0.25) / 3), 1e-6);
  EXPECT_TRUE(m.lower_is_better.contains("perplexity"));
  EXPECT_TRUE(m.intervals.at("perplexity").holds(m.metrics.at("perplexity")));
  EXPECT_THROW(measured("perplexity", found, {{}, {}}), Error) << "no tokens";
  EXPECT_THROW(measured("perplexity", found, {{.tokens = {0, 2, 1}}, {}}), Error) << "a token that has no score";
}

TEST(TaskMetrics, ErrorRatesReadFramesGreedily) {
  const std::string file = testing::TempDir() + "/seqto-vocab.json";
  std::ofstream(file) << R"({"<pad>": 0, "|": 1, "A": 2, "B": 3, "<unk>": 4})";
  const auto heard = [](const std::vector<int>& tokens) {
    std::vector<float> scores(tokens.size() * 5);
    for (size_t i = 0; i < tokens.size(); ++i) scores[i * 5 + static_cast<size_t>(tokens[i])] = 1;
    return std::vector{float_tensor({1, static_cast<int64_t>(tokens.size()), 5}, std::move(scores))};
  };
  Answers found({"scores"});
  found.append(heard({2, 2, 0, 2, 1, 1, 3, 4}));  // "aa b"
  found.append(heard({3, 0, 1}));                 // "b"
  const std::vector<Truth> truths{{.transcript = "Aa ab"}, {.transcript = "b  a"}};
  EXPECT_DOUBLE_EQ(measured("wer=" + file, found, truths).metrics.at("wer"), 2.0 / 4);  // ab -> b, a left out
  EXPECT_DOUBLE_EQ(measured("cer=" + file, found, truths).metrics.at("cer"), 3.0 / 8);  // a; a space and a
  EXPECT_DOUBLE_EQ(measured("wer=" + file, found, {{}, truths[1]}).metrics.at("wer"), 1.0 / 2);
  EXPECT_THROW(measured("wer=" + file, found, {{}, {}}), Error) << "no transcripts";
}

TEST(TaskMetrics, F1HasAnInterval) {
  Outputs outputs;
  std::vector<int64_t> labels;
  for (int i = 0; i < 60; ++i) {
    const int found = (i * 5) % 3;
    outputs.append(std::vector<float>{found == 0 ? 1.f : 0.f, found == 1 ? 1.f : 0.f, found == 2 ? 1.f : 0.f});
    labels.push_back(i % 4 == 0 ? (found + 1) % 3 : found);
  }
  Measurement m;
  measure_outputs(m, outputs, outputs, labels);
  const Interval interval = m.intervals.at("f1");
  EXPECT_TRUE(interval.holds(m.metrics.at("f1")));
  EXPECT_GT(interval.high - interval.low, 0.1);
  EXPECT_LT(interval.high - interval.low, 0.4);
}

TEST(TaskMetrics, TrialsKeepThem) {
  Trial trial;
  trial.id = "x";
  trial.measurement = measured("rmse", answers({{1}, {2}}), {{.target = {0}}, {.target = {0}}});
  const Trial back = trial_from_json(trial_to_json(trial));
  EXPECT_EQ(back.measurement->lower_is_better, trial.measurement->lower_is_better);
  ASSERT_EQ(back.measurement->replicates.at("rmse").size(), trial.measurement->replicates.at("rmse").size());
  EXPECT_EQ(trial_to_json(back), trial_to_json(trial));
}

// Limits know a figure by its name alone.
TEST(TaskMetrics, DirectionsByName) {
  for (const std::string& name : task_metric_names()) {
    if (name == "wer" || name == "cer") continue;  // need a file
    EXPECT_EQ(higher_is_better(name), make_metrics({.metrics = {name}}).at(0)->higher_is_better()) << name;
  }
  EXPECT_FALSE(higher_is_better("wer"));
  EXPECT_FALSE(higher_is_better("cer"));
  EXPECT_TRUE(higher_is_better("top5"));
  EXPECT_FALSE(higher_is_better("my_map50"));  // a user's own, of which its name tells nothing
}

TEST(TaskMetrics, NamesAndOptions) {
  EXPECT_TRUE(make_metrics({}).empty());
  EXPECT_THROW(make_metrics({.metrics = {"wer"}}), Error);  // needs a file
  EXPECT_THROW(make_metrics({.metrics = {"mae", "mae"}}), Error);
  EXPECT_THROW(make_metrics({.commands = {"own:best:true"}}), Error);
  EXPECT_EQ(make_metrics({.metrics = {"mae"}, .commands = {"own:max:echo 1 :"}}).at(1)->name(), "own");
  EXPECT_NE(metric_options_to_json({.metrics = {"mae"}}), metric_options_to_json({.metrics = {"rmse"}}));
}

}  // namespace
}  // namespace seqto
