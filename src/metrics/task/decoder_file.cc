// The description of a detector's outputs, docs/reference/metrics.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "metrics/task/detections.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

const std::vector<std::pair<const char*, std::optional<ClassNumbers>>>& class_numbers() {
  static const std::vector<std::pair<const char*, std::optional<ClassNumbers>>> kWords{
      {"index", ClassNumbers::kIndex}, {"from_one", ClassNumbers::kFromOne}, {"categories", ClassNumbers::kCategories}};
  return kWords;
}

using Json = nlohmann::ordered_json;

// Takes the keys of an object one by one, so that those left over can be named.
class Fields {
 public:
  Fields(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  template <class T>
  void take(const char* key, T& value) {
    known_.emplace_back(key);
    if (json_.contains(key)) value = json_.at(key).get<T>();
  }
  template <class T>
  void take_word(const char* key, T& value, const std::vector<std::pair<const char*, T>>& words) {
    std::string found;
    take(key, found);
    if (found.empty()) return;
    std::vector<std::string> names;
    for (const auto& [name, meaning] : words) {
      names.emplace_back(name);
      if (found == name) return void(value = meaning);
    }
    fail(fmt::format("\"{}\": \"{}\" found; one of {} expected", key, found, fmt::join(names, ", ")));
  }
  void require_known() {
    for (const auto& [key, value] : json_.items())
      if (std::ranges::find(known_, key) == known_.end())
        fail(fmt::format("the key \"{}\" found; one of {} expected", key, fmt::join(known_, ", ")));
  }
  [[noreturn]] void fail(const std::string& found) const {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: {}; docs/reference/metrics.md has the form", file_, found));
  }

 private:
  const Json& json_;
  std::string file_;
  std::vector<std::string> known_;
};

void read_heads(Decoder& d, const Json& outputs, const std::string& file) {
  for (const Json& output : outputs) {
    DetectionHead& head = d.heads.emplace_back();
    if (output.is_string()) {
      head.output = output;
      continue;
    }
    Fields fields(output, file);
    fields.take("name", head.output);
    fields.take("scores", head.scores);
    fields.take("classes", head.classes);
    fields.take("anchors", head.anchors);
    fields.require_known();
    for (const auto& anchor : head.anchors)
      if (anchor.size() != 2) fields.fail(fmt::format("an anchor of {} numbers found; two expected", anchor.size()));
  }
}

}  // namespace

Decoder read_decoder(const std::string& file) { return parse_decoder(read_file(file), file); }

std::string_view to_string(ClassNumbers numbers) {
  return std::ranges::find(class_numbers(), std::optional(numbers),
                           &std::pair<const char*, std::optional<ClassNumbers>>::second)
      ->first;
}

Decoder parse_decoder(const std::string& text, const std::string& file) {
  Decoder d;
  try {
    const Json json = parse_json<Json>(text);
    Fields fields(json, file);
    std::vector<double> input, powers;
    std::vector<int64_t> keypoints;
    Json outputs = Json::array();
    bool objectness = true;
    if (json.contains("objectness") && json["objectness"].is_boolean()) {
      fields.take("objectness", objectness);
      d.objectness = objectness;
    } else {
      fields.take_word("objectness", d.objectness_first, {{"first", true}, {"after_box", false}});
    }
    fields.take("outputs", outputs);
    fields.take("classes", d.classes);
    fields.take("keypoints", keypoints);
    fields.take("masks", d.masks);
    fields.take("angle", d.angle);
    fields.take("extra", d.extra);
    fields.take_word("layout", d.channels_first, {{"channels_first", true}, {"channels_last", false}});
    fields.take_word<BoxForm>(
        "box", d.box, {{"cxcywh", BoxForm::kMiddle}, {"xyxy", BoxForm::kCorners}, {"yxyx", BoxForm::kCornersYFirst}});
    fields.take_word<BoxDecode>("decode", d.decode,
                                {{"none", BoxDecode::kNone},
                                 {"yolov3", BoxDecode::kYolov3},
                                 {"yolov5", BoxDecode::kYolov5},
                                 {"yolox", BoxDecode::kYolox},
                                 {"fastestdet", BoxDecode::kFastestdet},
                                 {"found", BoxDecode::kFound}});
    if (d.decode == BoxDecode::kFound) d.objectness = false, d.nms_threshold = 1;
    fields.take_word("class_numbers", d.class_numbers, class_numbers());
    fields.take_word("row", d.batch_first, {{"box_score_class", false}, {"batch_box_class_score", true}});
    fields.take_word<ScoreForm>(
        "activation", d.activation,
        {{"none", ScoreForm::kShares}, {"sigmoid", ScoreForm::kSigmoid}, {"softmax", ScoreForm::kSoftmax}});
    fields.take("input", input);
    fields.take("strides", d.strides);
    fields.take("score_powers", powers);
    fields.take("multi_label", d.multi_label);
    fields.take("score_threshold", d.score_threshold);
    fields.take("nms_threshold", d.nms_threshold);
    fields.take("max_detections", d.max_detections);
    fields.require_known();
    if (d.classes < 1 && d.decode != BoxDecode::kFound)
      fields.fail(fmt::format("{} \"classes\" found; at least 1 expected", d.classes));
    if (d.extra < 0) fields.fail(fmt::format("{} \"extra\" found; at least 0 expected", d.extra));
    constexpr int64_t kMostKeypoints = 1000;
    if (!keypoints.empty() && (keypoints.size() != 2 || keypoints[0] < 1 || keypoints[0] > kMostKeypoints ||
                               keypoints[1] < 2 || keypoints[1] > 3))
      fields.fail(
          fmt::format("\"keypoints\": [{}] found; how many, and 2 or 3 values for each, expected, as in [17, 3]",
                      fmt::join(keypoints, ", ")));
    if (!keypoints.empty()) d.keypoints = keypoints[0], d.keypoint_values = keypoints[1];
    if (!input.empty() && (input.size() != 2 || input[0] <= 0 || input[1] <= 0))
      fields.fail("\"input\" found; [width, height] in pixels expected");
    if (!input.empty()) d.width = input[0], d.height = input[1];
    if (!powers.empty() && powers.size() != 2)
      fields.fail("\"score_powers\" found; one for each of objectness and class expected");
    if (!powers.empty()) d.objectness_power = powers[0], d.class_power = powers[1];
    read_heads(d, outputs, file);
    const bool anchored = d.decode == BoxDecode::kYolov3 || d.decode == BoxDecode::kYolov5;
    if (anchored && (d.heads.empty() || d.heads[0].anchors.empty()))
      fields.fail("no anchors found; \"outputs\": [{\"name\": ..., \"anchors\": [[w, h], ...]}, ...] expected");
    if ((anchored || !d.strides.empty()) && d.width <= 0)
      fields.fail("no \"input\" found; [width, height] in pixels expected where there are anchors or strides");
    for (const int64_t stride : d.strides)
      if (stride < 1) fields.fail(fmt::format("a stride of {} found; at least 1 expected", stride));
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: {}; a decoder's description expected; docs/reference/metrics.md has the form",
                            file, error.what()));
  }
  return d;
}

}  // namespace seqto::internal
