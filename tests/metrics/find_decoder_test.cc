#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "metrics/task/detections.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

struct Output {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<float> values;
};

// Values in [least, least + 1), repeatable.
std::vector<float> some(int64_t count, float least = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(least + static_cast<float>(i * 37 % 101) / 101);
  return values;
}

int64_t size_of(const std::vector<int64_t>& dims) {
  int64_t size = 1;
  for (const int64_t d : dims) size *= d;
  return size;
}

Output filled(std::string name, std::vector<int64_t> dims, float least = 0) {
  const int64_t size = size_of(dims);
  return {std::move(name), std::move(dims), some(size, least)};
}

// Of places, each of which has its channels side by side: a box, and from 0 to 1 what is behind it.
Output of_places(int64_t places, int64_t channels, float least) {
  Output output = filled("output", {1, places, channels});
  for (size_t i = 0; i < output.values.size(); ++i)
    if (static_cast<int64_t>(i) % channels < 4) output.values[i] += least;
  return output;
}

json found(const std::vector<Output>& outputs, const std::string& names = "",
           const std::vector<int64_t>& input = {1, 3, 640, 640}, const std::string& keypoints = "",
           const std::string& task = "detect", int64_t named = 0, const std::string& architecture = "",
           const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
  Model model;
  model.metadata = metadata;
  model.metadata.emplace_back("task", task);
  if (!keypoints.empty()) model.metadata.emplace_back("kpt_shape", keypoints);
  if (!names.empty()) model.metadata.emplace_back("names", names);
  std::vector<Outputs> all;
  for (const Output& o : outputs) {
    Outputs& own = all.emplace_back();
    own.dims = o.dims;
    own.place = model.graph.outputs.size();
    own.append(o.values);
    model.graph.outputs.push_back({o.name, DataType::kFloat, {}, ""});
  }
  Outputs first = all.front();
  first.others.assign(all.begin() + 1, all.end());
  Sample sample;
  sample.inputs.push_back(float_tensor(input, std::vector<float>(static_cast<size_t>(size_of(input)))));
  sample.classes = named;
  const std::string text = find_decoder(model, first, sample, architecture);
  if (text.empty()) return nullptr;
  parse_decoder(text, "test");  // it is a description
  return json::parse(text);
}

TEST(FindDecoder, Yolov8) {
  const json read = found({filled("output0", {1, 84, 8400}, 100)});
  EXPECT_EQ(read, json::parse(R"({"outputs": ["output0"], "classes": 80, "objectness": false,
                                  "layout": "channels_first", "input": [640, 640]})"));
  EXPECT_FALSE(found({filled("output0", {1, 84, 8400})}).contains("input")) << "boxes as shares of the picture";
  EXPECT_EQ(found({filled("output0", {1, 84, 3024}, 100)}, "", {1, 3, 288, 512})["input"], json::parse("[512, 288]"));
}

// Left, top, right, bottom of each cell, as some exports have them: the values tell.
TEST(FindDecoder, CornersOfCells) {
  Output output = filled("output0", {1, 84, 8400}, 100);
  for (size_t i = 0; i < 8400; ++i)
    for (size_t axis = 0; axis < 2; ++axis) output.values[(axis + 2) * 8400 + i] = output.values[axis * 8400 + i] + 9;
  EXPECT_EQ(found({output})["box"], "xyxy");
  EXPECT_FALSE(found({filled("output0", {1, 84, 8400}, 100)}).contains("box"));
}

// Boxes of Ultralytics are middles and sizes, also where untrained weights draw them as if they were corners.
TEST(FindDecoder, MiddlesThatTheFileNotes) {
  Output output = filled("output0", {1, 84, 8400}, 100);
  for (size_t i = 0; i < size_t{2} * 8400; ++i) output.values[2 * 8400 + i] = output.values[i] + 9;
  const auto has_corners = [&](const std::vector<std::pair<std::string, std::string>>& metadata) {
    return found({output}, "", {1, 3, 640, 640}, "", "detect", 0, "", metadata).contains("box");
  };
  EXPECT_TRUE(has_corners({}));
  EXPECT_FALSE(has_corners({{"author", "Ultralytics"}}));
  EXPECT_FALSE(has_corners({{"author", "Ultralytics"}, {"end2end", "False"}, {"args", "{'batch': 1, 'nms': False}"}}));
  EXPECT_TRUE(has_corners({{"author", "Ultralytics"}, {"end2end", "True"}}));
  EXPECT_TRUE(has_corners({{"author", "Ultralytics"}, {"args", "{'batch': 1, 'nms': True}"}}));
}

TEST(FindDecoder, ClassesThatTheFileNotes) {
  // 3 classes and 32 coefficients of masks, whose prototypes are a second output.
  const json read = found({filled("output0", {1, 39, 8400}, 9), filled("output1", {1, 32, 160, 160})},
                          "{0: 'a: b', 1: 'c', 2: \"d's\"}");
  EXPECT_EQ(read["classes"], 3);
  EXPECT_EQ(read["masks"], "output1");
  EXPECT_FALSE(read.contains("extra"));
  EXPECT_EQ(found({filled("output0", {1, 39, 8400}, 9)}, "{0: 'a', 1: 'b', 2: 'c'}")["extra"], 32);
}

TEST(FindDecoder, MasksByTheirPrototypes) {
  const auto read = [](const std::vector<int64_t>& boxes, std::vector<int64_t> prototypes,
                       const std::string& names = "") {
    const bool cells_last = boxes[1] < boxes[2];
    return found({cells_last ? filled("output0", boxes, 9) : of_places(boxes[1], boxes[2], 9),
                  filled("output1", std::move(prototypes))},
                 names);
  };
  const json without_names = read({1, 39, 8400}, {1, 32, 160, 160});
  EXPECT_EQ(without_names["classes"], 3);
  EXPECT_EQ(without_names["masks"], "output1");
  EXPECT_EQ(read({1, 39, 8400}, {1, 32, 80, 80})["classes"], 35) << "not a quarter of the input";
  const json older = read({1, 25200, 40}, {1, 32, 160, 160});  // YOLOv5, with objectness
  EXPECT_EQ(older["classes"], 3);
  EXPECT_EQ(older["masks"], "output1");
  Output rows{"output0", {1, 300, 38}, std::vector<float>(300 * 38)};
  const json suppressed = found({rows, filled("output1", {1, 32, 160, 160})});
  EXPECT_EQ(suppressed["decode"], "found");
  EXPECT_EQ(suppressed["masks"], "output1");
  Output plain{"output0", {1, 300, 6}, std::vector<float>(300 * 6)};
  EXPECT_FALSE(found({plain, filled("features", {1, 32, 160, 160})}).contains("masks"));
}

TEST(FindDecoder, TurnedBoxesThatTheFileNotes) {
  const auto read = [](int64_t channels, const std::string& task) {
    return found({filled("output0", {1, channels, 8400}, 9)}, "{0: 'a', 1: 'b'}", {1, 3, 640, 640}, "", task);
  };
  EXPECT_EQ(read(7, "obb")["angle"], true);
  EXPECT_FALSE(read(7, "obb").contains("extra"));
  EXPECT_EQ(read(7, "detect")["extra"], 1);
  EXPECT_EQ(read(8, "obb")["extra"], 2);
}

TEST(FindDecoder, KeypointsThatTheFileNotes) {
  const auto read = [](std::vector<int64_t> dims, const std::string& shape) {
    return found({filled("output0", std::move(dims), 9)}, "{0: 'person'}", {1, 3, 640, 640}, shape);
  };
  const json keypoints = read({1, 56, 8400}, "[17, 3]");
  EXPECT_EQ(keypoints["keypoints"], json::parse("[17, 3]"));
  EXPECT_EQ(keypoints["classes"], 1);
  EXPECT_FALSE(keypoints.contains("extra"));
  for (const char* other : {"[16, 3]", "[17]", "[17, 3", "{}", "[\"17\", 3]", "[-17, -3]"}) {
    const json without = read({1, 56, 8400}, other);
    EXPECT_EQ(without["extra"], 51) << other;
    EXPECT_FALSE(without.contains("keypoints")) << other;
  }
  Output rows{"output0", {1, 300, 57}, std::vector<float>(300 * 57)};
  const json suppressed = found({rows}, "{0: 'person'}", {1, 3, 640, 640}, "[17, 3]");
  EXPECT_EQ(suppressed["decode"], "found");
  EXPECT_EQ(suppressed["keypoints"], json::parse("[17, 3]"));
}

// What the answer of the model's first output, rows of `width` numbers, is found to be; the picture is 64 x 32.
json found_in(const Model& model, std::span<const float> answer, int64_t width) {
  Outputs first;
  first.dims = {std::ssize(answer) / width, width};
  first.append(answer);
  Sample sample;
  sample.inputs.push_back(float_tensor({1, 3, 32, 64}, std::vector<float>(3 * 32 * 64)));
  const std::string text = find_decoder(model, first, sample);
  if (text.empty()) return json();
  parse_decoder(text, "test");
  return json::parse(text);
}

TEST(FindDecoder, Lists) {
  const auto read = [](const std::string& count, const std::string& batch, std::vector<float> boxes, int axes = 1) {
    Model model;
    model.graph.inputs.push_back({"x", DataType::kFloat, std::vector<Dimension>{{-1, batch}, {3}, {32}, {64}}, ""});
    std::vector<Dimension> list{{-1, count}};
    if (axes == 2) list.insert(list.begin(), {1});
    std::vector<Dimension> four = list;
    four.push_back({4});
    model.graph.outputs = {{"b", DataType::kFloat, four, ""},
                           {"l", DataType::kInt64, list, ""},
                           {"s", DataType::kFloat, list, ""},
                           {"masks", DataType::kFloat, std::vector<Dimension>{{-1, count}, {1}, {28}, {28}}, ""}};
    return found_in(model, boxes, 4);
  };
  const json pixels = read("objects", "batch", {1, 2, 30, 20, 5, 5, 9, 9});
  EXPECT_EQ(pixels, json::parse(R"({"outputs": [{"name": "b", "scores": "s", "classes": "l"}], "decode": "found",
                                    "box": "xyxy", "input": [64, 32]})"));
  const json shares = read("objects", "batch", {0, 0, 0.5f, 1});
  EXPECT_EQ(shares["decode"], "found");
  EXPECT_FALSE(shares.contains("input"));
  EXPECT_EQ(read("objects", "batch", {}), pixels) << "none in the first picture";
  EXPECT_EQ(read("objects", "batch", {1, 2, 30, 20}, 2), pixels);
  EXPECT_TRUE(read("batch", "batch", {1, 2, 30, 20}).is_null()) << "four classes of each sample";
  EXPECT_TRUE(read("", "", {0.1f, 0.2f, 0.3f, 0.4f}).is_null()) << "shares of four classes";
}

TEST(FindDecoder, ListsWithThePictureFirst) {
  const auto read = [](const std::string& count, std::vector<float> rows) {
    Model model;
    model.graph.inputs.push_back({"x", DataType::kFloat, std::vector<Dimension>{{-1, "batch"}, {3}, {32}, {64}}, ""});
    model.graph.outputs = {{"output", DataType::kFloat, std::vector<Dimension>{{-1, count}, {7}}, ""}};
    return found_in(model, rows, 7);
  };
  const json pixels = read("objects", {0, 1, 2, 30, 20, 3, 0.5f, 0, 5, 5, 9, 9, 0, 0.9f});
  EXPECT_EQ(pixels, json::parse(R"({"outputs": ["output"], "decode": "found", "box": "xyxy",
                                    "row": "batch_box_class_score", "input": [64, 32]})"));
  EXPECT_EQ(read("objects", {}), pixels) << "none in the first picture";
  EXPECT_FALSE(read("objects", {0, 0, 0, 0.5f, 1, 3, 0.5f}).contains("input"));
  EXPECT_TRUE(read("batch", {0, 1, 2, 30, 20, 3, 0.5f}).is_null()) << "seven classes of each sample";
  EXPECT_TRUE(read("objects", {0.1f, 0.2f, 0.1f, 0.2f, 0.1f, 0.2f, 0.1f}).is_null()) << "shares of seven classes";
}

TEST(FindDecoder, Yolov5AndYolox) {
  const json anchored = found({of_places(25200, 85, 100)});
  EXPECT_EQ(anchored, json::parse(R"({"outputs": ["output"], "classes": 80, "input": [640, 640]})"));
  EXPECT_EQ(found({of_places(8400, 85, 100)}), anchored) << "YOLOX, decoded in the graph";
  const json raw = found({of_places(8400, 85, -0.5f)});
  EXPECT_EQ(raw["decode"], "yolox");
  EXPECT_EQ(raw["strides"], json::parse("[8, 16, 32]"));
}

TEST(FindDecoder, ClassesThatTheDataName) {
  const auto read = [](std::vector<int64_t> dims, int64_t named, const std::string& names = "") {
    const bool cells_last = dims[1] < dims[2];
    return found({cells_last ? filled("output", dims, 100) : of_places(dims[1], dims[2], 100)}, names, {1, 3, 640, 640},
                 "", "detect", named);
  };
  const json turned = read({1, 8400, 7}, 3);
  EXPECT_EQ(turned, json::parse(R"({"outputs": ["output"], "classes": 3, "objectness": false, "input": [640, 640]})"));
  EXPECT_EQ(read({1, 8400, 7}, 0, "{0: 'a', 1: 'b', 2: 'c'}"), turned) << "as the file notes";
  EXPECT_EQ(read({1, 8400, 5}, 1)["classes"], 1);
  for (const int64_t named : {0, 2, 5}) {
    EXPECT_EQ(read({1, 8400, 7}, named)["classes"], 2) << "with objectness";
    EXPECT_FALSE(read({1, 8400, 7}, named).contains("objectness"));
  }
  EXPECT_FALSE(read({1, 8400, 7}, 3, "{0: 'a', 1: 'b'}").contains("objectness")) << "the model's own names come first";
  EXPECT_EQ(read({1, 84, 8400}, 3)["classes"], 80) << "data that know a part of the classes";
  EXPECT_EQ(found({of_places(8400, 39, 9), filled("output1", {1, 32, 160, 160})}, "", {1, 3, 640, 640}, "", "segment",
                  3)["objectness"],
            false)
      << "masks behind the classes";
}

TEST(FindDecoder, BoxesLargerThanThePictureAreShares) {
  const auto read = [](const std::string& name, std::vector<int64_t> dims, float largest) {
    Output boxes = filled(name, std::move(dims));
    boxes.values.front() = largest;
    return found({boxes, filled("logits", {1, boxes.dims[1], 80})}).contains("input");
  };
  for (const float share : {1.0f, 2.6f, 20.0f}) {
    EXPECT_FALSE(read("output", {1, 84, 8400}, share)) << share;
    EXPECT_FALSE(read("output", {1, 25200, 85}, share)) << share;
    EXPECT_FALSE(read("pred_boxes", {1, 300, 4}, share)) << share;
  }
  for (const auto& [name, dims] : {std::pair<std::string, std::vector<int64_t>>{"output", {1, 84, 8400}},
                                   {"output", {1, 25200, 85}},
                                   {"pred_boxes", {1, 300, 4}}})
    EXPECT_TRUE(read(name, dims, 30)) << name;
}

TEST(FindDecoder, AClassOfNoneByTheNames) {
  const auto read = [](int64_t scores, int64_t named) {
    return found({filled("logits", {1, 100, scores}, -5), filled("pred_boxes", {1, 100, 4})}, "", {1, 3, 640, 640}, "",
                 "detect", named);
  };
  EXPECT_EQ(read(4, 3)["classes"], 3);
  EXPECT_EQ(read(4, 3)["activation"], "softmax");
  EXPECT_EQ(read(3, 3)["activation"], "sigmoid");
  EXPECT_EQ(read(92, 3)["activation"], "softmax");
  EXPECT_EQ(read(4, 0)["activation"], "sigmoid");
}

TEST(FindDecoder, AClassOfNoneByTheArchitecture) {
  const auto read = [](const std::string& architecture, int64_t scores = 6, int64_t named = 0) {
    Output boxes = filled("pred_boxes", {1, 20, 4});
    for (size_t i = 0; i < boxes.values.size(); ++i) boxes.values[i] = i % 4 < 2 ? 0.1f : 0.9f;
    return found({filled("logits", {1, 20, scores}, -5), boxes}, "", {1, 3, 96, 96}, "", "detect", named, architecture);
  };
  for (const char* with_none : {"DetrForObjectDetection", "YolosForObjectDetection"}) {
    EXPECT_EQ(read(with_none)["classes"], 5) << with_none;
    EXPECT_EQ(read(with_none)["activation"], "softmax") << with_none;
    EXPECT_FALSE(read(with_none).contains("box")) << with_none;
  }
  for (const char* without : {"RTDetrForObjectDetection", "DeformableDetrForObjectDetection"}) {
    EXPECT_EQ(read(without)["classes"], 6) << without;
    EXPECT_EQ(read(without, 6, 5)["classes"], 6) << without;
    EXPECT_EQ(read(without)["activation"], "sigmoid") << without;
  }
  EXPECT_EQ(read("BertModel"), read(""));
  EXPECT_EQ(read("")["box"], "xyxy");
}

TEST(FindDecoder, Suppressed) {
  Output rows = filled("output0", {1, 300, 6});
  for (size_t i = 0; i < rows.values.size(); i += 6) rows.values[i + 2] = 300, rows.values[i + 5] = 7;
  EXPECT_EQ(found({rows}), json::parse(R"({"outputs": ["output0"], "decode": "found", "box": "xyxy",
                                          "input": [640, 640]})"));
  rows.values[5] = 0.5f;  // no class
  EXPECT_EQ(found({rows}), nullptr);
}

TEST(FindDecoder, SuppressedTurnedBoxes) {
  Output rows = filled("output0", {1, 300, 7});
  for (size_t i = 0; i < rows.values.size(); i += 7) rows.values[i + 2] = 300, rows.values[i + 5] = 1;
  const auto read = [&](const std::string& task) { return found({rows}, "", {1, 3, 640, 640}, "", task); };
  EXPECT_EQ(read("obb"), json::parse(R"({"outputs": ["output0"], "decode": "found", "box": "cxcywh", "angle": true,
                                         "input": [640, 640]})"));
  EXPECT_EQ(read("detect"), nullptr);
}

TEST(FindDecoder, PartsOfTheirOwn) {
  json read = found({filled("logits", {1, 100, 92}, -5), filled("pred_boxes", {1, 100, 4})});
  EXPECT_EQ(read["classes"], 91);
  EXPECT_EQ(read["activation"], "softmax");
  read = found({filled("logits", {1, 300, 80}, -5), filled("pred_boxes", {1, 300, 4})});
  EXPECT_EQ(read["classes"], 80);
  EXPECT_EQ(read["activation"], "sigmoid");
  read = found({filled("detection_boxes", {1, 100, 4}), filled("detection_classes", {1, 100}),
                filled("detection_scores", {1, 100})});
  EXPECT_EQ(read["box"], "yxyx");
  EXPECT_EQ(read["outputs"][0]["classes"], "detection_classes");
}

// RT-DETR as Ultralytics exports it: no grid has so many cells, and all numbers are shares.
TEST(FindDecoder, QueriesByTheNames) {
  const auto read = [](float least, int64_t named, int64_t places = 300) {
    return found({filled("output0", {1, places, 84}, least)}, "", {1, 3, 640, 640}, "", "detect", named);
  };
  EXPECT_EQ(read(0, 80), json::parse(R"({"outputs": ["output0"], "classes": 80, "objectness": false,
                                         "nms_threshold": 1})"));
  EXPECT_EQ(read(0, 79), nullptr);
  EXPECT_EQ(read(1, 80), nullptr) << "no shares";
  EXPECT_FALSE(read(0, 80, 8400).contains("nms_threshold")) << "cells";
}

TEST(FindDecoder, CellsWithoutScoresOrBoxes) {
  EXPECT_EQ(found({filled("output", {1, 2125, 112}, -3)}, "", {1, 3, 320, 320}), nullptr) << "NanoDet-Plus";
  const Output scores = filled("output", {1, 8400, 80}), boxes = filled("boxes", {1, 8400, 4}, 100);
  EXPECT_EQ(found({scores, boxes}), nullptr) << "DAMO-YOLO";
}

TEST(FindDecoder, WhatIsNoDetector) {
  EXPECT_EQ(found({filled("scores", {1, 1000})}), nullptr);
  EXPECT_EQ(found({filled("map", {1, 19, 80, 80})}), nullptr);
  EXPECT_EQ(found({filled("hidden", {1, 128, 768})}), nullptr);
  EXPECT_EQ(found({filled("output", {1, 84, 8401}, 100)}), nullptr);
  EXPECT_EQ(found({filled("output", {1, 84, 8400}, 100)}, "", {1, 128}), nullptr) << "no picture";
}

TEST(Detections, PartsAndTheirClassOfNone) {
  Answers answers({"pred_boxes", "logits"});
  // Two boxes; the second is none of the two classes.
  answers.append(std::vector<Tensor>{float_tensor({1, 2, 4}, {0.5f, 0.5f, 0.2f, 0.4f, 0.1f, 0.1f, 0.1f, 0.1f}),
                                     float_tensor({1, 2, 3}, {0, 2, -3, -9, -9, 9})});
  const Decoder decoder = parse_decoder(R"({"outputs": [{"name": "pred_boxes", "scores": "logits"}], "classes": 2,
      "objectness": false, "activation": "softmax", "nms_threshold": 1, "score_threshold": 0.3})",
                                        "test");
  const std::vector<Detection> seen = decode(decoder, answers, 0);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].box.label, 1);
  EXPECT_NEAR(seen[0].score, std::exp(2) / (1 + std::exp(2) + std::exp(-3)), 1e-6);
  EXPECT_NEAR(seen[0].box.left, 0.4, 1e-6);
  EXPECT_NEAR(seen[0].box.bottom, 0.7, 1e-6);
}

TEST(Detections, ADetectorWithoutScoresIsDead) {
  const Decoder decoder = parse_decoder(R"({"classes": 2, "objectness": false})", "test");
  const ScoreRange alive{.least = 0, .highest = 0.9};
  EXPECT_NO_THROW(require_alive({.least = 0, .highest = 0.5}, alive, decoder));
  EXPECT_THROW(require_alive({.least = 0, .highest = 0}, alive, decoder), Error);
  EXPECT_THROW(require_alive({.least = 0.5, .highest = 0.5}, alive, decoder), Error);
  EXPECT_NO_THROW(require_alive({.least = 0, .highest = 0}, {.least = 0, .highest = 0.001}, decoder))
      << "the float model finds nothing either";
}

}  // namespace
}  // namespace seqto::internal
