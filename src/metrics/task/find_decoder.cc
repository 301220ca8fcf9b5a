// What a detector's outputs mean, found from their shapes, the first answer and what exporters note in the file.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "metrics/loss/softmax.h"
#include "metrics/task/detections.h"
#include "metrics/task/task_metric_kinds.h"

namespace seqto::internal {
namespace {

using Json = nlohmann::ordered_json;

// A float output of the first answer.
struct Answer {
  std::string name;
  std::vector<int64_t> dims;
  std::span<const float> values;
};

struct Input {
  int64_t width = 0, height = 0;
};

std::vector<Answer> answers_of(const Model& model, const Outputs& first) {
  std::vector<Answer> answers;
  const auto add = [&](const Outputs& o) {
    if (o.place < model.graph.outputs.size() && o.rows > 0)
      answers.push_back({model.graph.outputs[o.place].name, o.dims, o.row(0)});
  };
  add(first);
  std::ranges::for_each(first.others, add);
  return answers;
}

// Of the one picture that the model reads.
std::optional<Input> input_of(const Sample& sample) {
  if (sample.inputs.empty()) return {};
  std::vector<int64_t> dims = sample.inputs[0].dims();
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  if (dims.size() != 4) return {};
  const auto is_depth = [](int64_t d) { return d == 1 || d == 3; };
  if (is_depth(dims[1])) return Input{dims[3], dims[2]};
  if (is_depth(dims[3])) return Input{dims[2], dims[1]};
  return {};
}

// How many entries the dict `names` has that Ultralytics writes into its files: {0: 'person', 1: ...}. 0: not there.
int64_t noted_classes(const Model& model) {
  const auto names = std::ranges::find(model.metadata, "names", &std::pair<std::string, std::string>::first);
  if (names == model.metadata.end() || !names->second.starts_with('{')) return 0;
  int64_t count = 0;
  const std::string& text = names->second;
  for (size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == ':' && text[i - 1] >= '0' && text[i - 1] <= '9' && text[i + 1] == ' ') ++count;
  return count;
}

// [how many, values of each] that Ultralytics writes into its files: [17, 3]; empty: not there.
std::vector<int64_t> noted_keypoints(const Model& model) {
  const auto noted = std::ranges::find(model.metadata, "kpt_shape", &std::pair<std::string, std::string>::first);
  if (noted == model.metadata.end()) return {};
  Json shape;
  try {
    shape = parse_json<Json>(noted->second);
  } catch (const Json::exception&) {
    return {};
  }
  const bool whole =
      shape.is_array() && std::ranges::all_of(shape, [](const Json& n) { return n.is_number_integer(); });
  if (!whole || shape.size() != 2 || shape[0] < 1 || shape[0] > 1000 || shape[1] < 2 || shape[1] > 3) return {};
  return shape;
}

// "task" that Ultralytics writes into its files: "obb" of turned boxes.
bool notes_turned(const Model& model) {
  return std::ranges::find(model.metadata, std::pair<std::string, std::string>("task", "obb")) != model.metadata.end();
}

// Whether the middle and size of each box are what an export of Ultralytics gives: all do that do not end in a
// suppression.
bool notes_middles(const Model& model) {
  const auto noted = [&](std::string_view key, std::string_view value) {
    return std::ranges::any_of(model.metadata, [&](const auto& entry) {
      return entry.first == key && entry.second.find(value) != std::string::npos;
    });
  };
  return noted("author", "Ultralytics") && !noted("end2end", "True") && !noted("args", "'nms': True");
}

// Whether a detector of transformers has a class for none, whose scores are shares of all classes; nothing: it is none.
std::optional<bool> has_class_of_none(std::string_view architecture) {
  constexpr std::array<std::string_view, 4> kWithNone{"DetrForObjectDetection", "DetrForSegmentation",
                                                      "TableTransformerForObjectDetection", "YolosForObjectDetection"};
  if (std::ranges::find(kWithNone, architecture) != kWithNone.end()) return true;
  return architecture.ends_with("ForObjectDetection") ? std::optional(false) : std::nullopt;
}

// [1, prototypes, rows, columns] of a quarter of the input.
bool is_prototypes(const Answer& a, const Input& input) {
  return a.dims.size() == 4 && a.dims[0] == 1 && a.dims[2] == input.height / 4 && a.dims[3] == input.width / 4;
}

// The strides whose grids over the input have so many cells together; empty: none that detectors use.
std::vector<int64_t> strides_of(const Input& input, int64_t cells) {
  static const std::vector<std::vector<int64_t>> kUsual{{8, 16, 32}, {16, 32}, {8, 16, 32, 64}, {4, 8, 16, 32}, {8, 16},
                                                        {16},        {32}};
  for (const auto& strides : kUsual) {
    int64_t sum = 0;
    for (const int64_t s : strides) sum += (input.width / s) * (input.height / s);
    if (sum == cells && sum > 0) return strides;
  }
  return {};
}

bool within(std::span<const float> values, float least, float most) {
  return std::ranges::all_of(values, [&](float v) { return v >= least && v <= most; });
}

// Of [places, width], column by column.
std::vector<float> column(const Answer& answer, int64_t width, int64_t at) {
  std::vector<float> values;
  for (size_t i = static_cast<size_t>(at); i < answer.values.size(); i += static_cast<size_t>(width))
    values.push_back(answer.values[i]);
  return values;
}

bool is_whole(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return v >= -1 && v == std::floor(v); });
}

// The four numbers of each box; `first`: those of a row before them.
std::vector<float> boxes_of(const Answer& answer, int64_t width, int64_t first = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < 4; ++i) {
    const std::vector<float> own = column(answer, width, first + i);
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

// Of a place for each cell, value by value: right of its left and below its top nearly everywhere. A middle and a size
// are so only near the upper left corner, where boxes are larger than their distance from it.
bool are_corners(std::span<const float> boxes) {
  constexpr double kNearlyAll = 0.95;
  const size_t places = boxes.size() / 4;
  size_t ordered = 0;
  for (size_t i = 0; i < places; ++i)
    ordered += boxes[2 * places + i] > boxes[i] && boxes[3 * places + i] > boxes[places + i];
  return places > 0 && static_cast<double>(ordered) > kNearlyAll * static_cast<double>(places);
}

Json in_pixels(Json decoder, const Input& input) {
  decoder["input"] = {input.width, input.height};
  return decoder;
}

// The largest number of boxes in pixels is near to the picture's side, that of shares near to 1, by factors: what
// finds nothing may well be drawn twice as large as the picture. Of no boxes pixels are the more usual.
Json in_their_unit(Json decoder, std::span<const float> boxes, const Input& input) {
  const float largest = boxes.empty() ? INFINITY : std::ranges::max(boxes);
  const auto side = static_cast<float>(std::min(input.width, input.height));
  return largest * largest < side ? decoder : in_pixels(std::move(decoder), input);
}

// What a file notes of its outputs, what the data say of them, and the prototypes of masks.
struct Noted {
  int64_t classes = 0;             // 0: nothing
  std::vector<int64_t> keypoints;  // empty: nothing
  bool turned = false;             // an angle stands behind the classes
  int64_t masks = 0;               // prototypes; 0: there are none
  std::string prototypes;          // their output
  int64_t named = 0;               // classes that the data name, which may be others; 0: not known
  bool middles = false;            // boxes are middles and sizes; false: their numbers tell
  std::optional<bool> none{};      // whether the last class stands for none; absent: the number of classes tells
  int64_t keypoint_values() const { return keypoints.empty() ? 0 : keypoints[0] * keypoints[1]; }
  int64_t behind() const { return keypoint_values() + masks + turned; }
  int64_t told() const { return classes > 0 ? classes : named; }
  // Whether so many values are just the classes and what is behind them.
  bool fill(int64_t values) const { return told() > 0 && told() + behind() == values; }
  // Of so many values for classes and what is behind them. Where nothing else tells, masks are known by their output.
  int64_t classes_of(int64_t values) const {
    if (classes > 0 && classes <= values) return classes;
    if (fill(values)) return told();
    return masks > 0 && masks < values ? values - masks : values;
  }
};

// What is behind the classes.
void add_behind(Json& decoder, int64_t values, const Noted& noted) {
  if (values <= 0) return;
  if (values == noted.keypoint_values()) decoder["keypoints"] = noted.keypoints;
  else if (values == noted.masks) decoder["masks"] = noted.prototypes;
  else if (values == 1 && noted.turned) decoder["angle"] = true;
  else decoder["extra"] = values;
}

// [1, boxes, 4 + classes] without cells, all of it shares: RT-DETR as Ultralytics exports it.
Json of_queries(const Answer& a, const Input& input, const Noted& noted) {
  const int64_t classes = a.dims[2] - 4;
  if (classes < 1 || classes != noted.told() || !within(a.values, 0, 1)) return {};
  if (!strides_of(input, a.dims[1]).empty()) return {};
  return {{"outputs", {a.name}}, {"classes", classes}, {"objectness", false}, {"nms_threshold", 1}};
}

// Boxes of the first answer's places in an output of their own, as of DAMO-YOLO: the first has none.
bool has_boxes_beside(std::span<const Answer> answers) {
  const std::vector<int64_t>& dims = answers.front().dims;
  return std::ranges::any_of(answers.subspan(1), [&](const Answer& other) {
    return other.dims.size() == 3 && other.dims[1] == dims[1] && other.dims[2] == 4;
  });
}

// [1, 4 + classes, cells]: YOLOv8 and later. [1, places, 5 + classes]: YOLOv5 and v7 with three boxes a cell, YOLOX
// with one. Where names fill the values without it, places have no objectness either.
Json of_cells(const Answer& a, const Input& input, const Noted& noted) {
  const bool channels_first = a.dims[1] < a.dims[2];
  const int64_t channels = a.dims[channels_first ? 1 : 2], places = a.dims[channels_first ? 2 : 1];
  const bool objectness = !channels_first && !noted.fill(channels - 4);
  const bool three_a_cell = objectness && places % 3 == 0 && !strides_of(input, places / 3).empty();
  const std::vector<int64_t> strides = strides_of(input, places);
  const int64_t values = channels - 4 - objectness;
  if (values < 1 || (!three_a_cell && strides.empty())) return {};
  const int64_t classes = noted.classes_of(values);
  // Features of each cell, as NanoDet's distances, are no scores.
  for (int64_t i = 4; i < 4 + objectness + classes && !channels_first; ++i)
    if (!within(column(a, channels, i), 0, 1)) return {};
  Json decoder{{"outputs", {a.name}}, {"classes", classes}};
  if (!objectness) decoder["objectness"] = false;
  if (channels_first) decoder["layout"] = "channels_first";
  add_behind(decoder, values - classes, noted);
  const auto first = a.values.first(static_cast<size_t>(4 * places));
  const std::vector<float> boxes =
      channels_first ? std::vector<float>(first.begin(), first.end()) : boxes_of(a, channels);
  if (!noted.middles && are_corners(boxes)) decoder["box"] = "xyxy";
  if (channels_first) return in_their_unit(decoder, boxes, input);
  const auto sizes = std::span(boxes).subspan(static_cast<size_t>(2 * places));
  // What is not decoded yet are logarithms of sizes.
  if (!objectness || three_a_cell || std::ranges::min(sizes) >= 0) return in_their_unit(decoder, boxes, input);
  decoder["decode"] = "yolox", decoder["strides"] = strides;
  return in_pixels(decoder, input);
}

// [1, detections, 6]: left, top, right, bottom, score, class; YOLOv10, YOLO26, exports with suppression in the graph.
// Keypoints, masks or an angle stand behind these; turned boxes have their middle and size.
Json found_rows(const Answer& a, const Input& input, const Noted& noted) {
  const int64_t width = a.dims[2], behind = width - 6;
  const bool turned = noted.turned && behind == 1;
  if ((behind != 0 && behind != noted.keypoint_values() && behind != noted.masks && !turned) || a.dims[1] > 1000)
    return {};
  const auto scores = column(a, width, 4), classes = column(a, width, 5);
  if (!within(scores, 0, 1) || !is_whole(classes)) return {};
  Json decoder{{"outputs", {a.name}}, {"decode", "found"}, {"box", turned ? "cxcywh" : "xyxy"}};
  add_behind(decoder, behind, noted);
  return in_their_unit(decoder, boxes_of(a, width), input);
}

const Answer* called(std::span<const Answer> answers, std::initializer_list<std::string_view> names) {
  for (const Answer& a : answers)
    if (std::ranges::find(names, a.name) != names.end()) return &a;
  return nullptr;
}

// Outputs for boxes, scores and classes: DETR as transformers exports it, TensorFlow's detection graphs.
Json of_parts(std::span<const Answer> answers, const Input& input, const Noted& noted) {
  const Answer *boxes = called(answers, {"pred_boxes"}), *scores = called(answers, {"logits"});
  if (boxes && scores && scores->dims.size() == 3 && boxes->dims.size() == 3 && scores->dims[1] == boxes->dims[1]) {
    // With a class for none, scores are shares of all classes; without, each is one of its own.
    const int64_t columns = scores->dims[2];
    const int64_t told = noted.told();
    const bool by_count = told > 0 && (columns == told || columns == told + 1) ? columns > told : columns == 92;
    const bool none = noted.none.value_or(by_count) && columns > 1;
    Json decoder{{"outputs", {{{"name", boxes->name}, {"scores", scores->name}}}},
                 {"classes", none ? columns - 1 : columns},
                 {"objectness", false},
                 {"activation", none ? "softmax" : "sigmoid"},
                 {"nms_threshold", 1}};
    if (!noted.middles && are_corners(boxes_of(*boxes, 4))) decoder["box"] = "xyxy";
    return in_their_unit(std::move(decoder), boxes->values, input);
  }
  boxes = called(answers, {"detection_boxes", "detection_boxes:0"});
  scores = called(answers, {"detection_scores", "detection_scores:0"});
  const Answer* classes = called(answers, {"detection_classes", "detection_classes:0"});
  if (!boxes || !scores || !classes) return {};
  return in_their_unit({{"outputs", {{{"name", boxes->name}, {"scores", scores->name}, {"classes", classes->name}}}},
                        {"decode", "found"},
                        {"box", "yxyx"}},
                       boxes->values, input);
}

// The only output of these types, of which `is` holds for its axes, those that the file leaves open being -1.
template <class F>
const ValueInfo* only_output(const Model& model, bool floats, F is) {
  const ValueInfo* found = nullptr;
  for (const ValueInfo& output : model.graph.outputs) {
    if (!output.shape || (output.type == DataType::kFloat) != floats) continue;
    if (!floats && output.type != DataType::kInt64 && output.type != DataType::kInt32) continue;
    std::vector<int64_t> dims;
    for (const Dimension& d : *output.shape) dims.push_back(d.value);
    if (!is(dims)) continue;
    if (found) return nullptr;
    found = &output;
  }
  return found;
}

// Whether the length of this axis is that of the inputs, and not of what is found in them.
bool is_of_batch(const Model& model, const Dimension& length) {
  return std::ranges::any_of(model.graph.free_inputs(), [&](const ValueInfo& input) {
    return input.shape && !input.shape->empty() && !length.parameter.empty() &&
           input.shape->front().parameter == length.parameter;
  });
}

// [objects, 7], as many as there are: the picture's number, corners, class, score; YOLOv7 with its suppression.
Json listed_by_picture(const Model& model, std::span<const Answer> answers, const Input& input) {
  const ValueInfo* rows = only_output(
      model, true, [](const std::vector<int64_t>& dims) { return dims.size() == 2 && dims[0] < 0 && dims[1] == 7; });
  if (!rows || model.graph.outputs.size() != 1 || is_of_batch(model, rows->shape->front())) return {};
  Json decoder{{"outputs", {rows->name}}, {"decode", "found"}, {"box", "xyxy"}, {"row", "batch_box_class_score"}};
  const Answer& a = answers.front();
  if (!within(column(a, 7, 0), 0, 0) || !is_whole(column(a, 7, 5)) || !within(column(a, 7, 6), 0, 1)) return {};
  return in_their_unit(decoder, boxes_of(a, 7, 1), input);
}

// Boxes [objects, 4], scores [objects] and classes [objects], or with an axis of 1 before, as many as there are:
// torchvision's detectors, and others that end in a suppression.
Json listed(const Model& model, std::span<const Answer> answers, const Input& input) {
  size_t axes = 0;
  const ValueInfo* boxes = only_output(model, true, [&](const std::vector<int64_t>& dims) {
    const bool fits =
        (dims.size() == 2 || (dims.size() == 3 && dims[0] == 1)) && dims.back() == 4 && dims[dims.size() - 2] < 0;
    if (fits) axes = dims.size() - 1;
    return fits;
  });
  const auto is_list = [&](const std::vector<int64_t>& dims) { return dims.size() == axes && dims.back() < 0; };
  if (!boxes) return {};
  const ValueInfo *scores = only_output(model, true, is_list), *classes = only_output(model, false, is_list);
  if (!scores || !classes) return {};
  Json decoder{{"outputs", {{{"name", boxes->name}, {"scores", scores->name}, {"classes", classes->name}}}},
               {"decode", "found"},
               {"box", "xyxy"}};
  const auto first = std::ranges::find(answers, boxes->name, &Answer::name);
  const std::span<const float> values = first == answers.end() ? std::span<const float>() : first->values;
  // As many as there are samples: scores of four classes.
  if (is_of_batch(model, (*boxes->shape)[axes - 1]) || are_shares(values)) return {};
  return in_their_unit(decoder, values, input);
}

}  // namespace

std::string find_decoder(const Model& model, const Outputs& first, const Sample& sample,
                         std::string_view architecture) {
  const std::vector<Answer> answers = answers_of(model, first);
  const auto input = input_of(sample);
  if (answers.empty() || !input) return {};
  Noted noted{.classes = noted_classes(model),
              .keypoints = noted_keypoints(model),
              .turned = notes_turned(model),
              .named = sample.classes,
              .none = has_class_of_none(architecture)};
  noted.middles = notes_middles(model) || noted.none;  // as transformers gives boxes
  for (const Answer& other : std::span(answers).subspan(1))
    if (is_prototypes(other, *input)) noted.masks = other.dims[1], noted.prototypes = other.name;
  Json decoder = of_parts(answers, *input, noted);
  if (decoder.is_null()) decoder = listed(model, answers, *input);
  if (decoder.is_null()) decoder = listed_by_picture(model, answers, *input);
  const Answer& a = answers.front();
  if (decoder.is_null() && a.dims.size() == 3 && a.dims[0] == 1 && a.dims[1] > 0 && a.dims[2] > 0) {
    decoder = found_rows(a, *input, noted);
    if (decoder.is_null()) decoder = of_queries(a, *input, noted);
    if (decoder.is_null() && !has_boxes_beside(answers)) decoder = of_cells(a, *input, noted);
  }
  return decoder.is_null() ? std::string() : decoder.dump();
}

std::string note_on_shares(const std::string& detector) {
  if (detector.empty() || parse_decoder(detector, "the outputs").width > 0) return {};
  return "the boxes of the first answer are so small that they are read as shares of the picture; if they are pixels, "
         "--metric map50_95=FILE.json with \"input\" expected";
}

std::string note_on_missing_boxes(const MetricOptions& asked, const std::string& detector) {
  const auto describes = [](const std::string& metric) {
    return metric.find('=') != std::string::npos && is_average_precision(metric.substr(0, metric.find('=')));
  };
  if (asked.task != "detect" || !detector.empty() || std::ranges::any_of(asked.metrics, describes)) return {};
  return "--task detect, and outputs without a form of boxes with scores found: the loss compares all their values, "
         "and nothing finds boxes in them; --metric map50_95=FILE.json says how they are read "
         "(docs/reference/metrics.md); "
         "of another model leave --task out";
}

}  // namespace seqto::internal
