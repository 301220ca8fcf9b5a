// What a detector's outputs mean: boxes, classes and scores, by a description of the head.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/task/outlines.h"
#include "seqto/dataset.h"
#include "seqto/metrics.h"
#include "seqto/model.h"

namespace seqto::internal {

struct Detection {
  Box box;  // its label is the class found; with the four corners where it is turned
  double score = 0;
  std::vector<float> mask_weights;  // of each prototype
};

// What the numbers of found classes are.
enum class ClassNumbers {
  kIndex,       // from 0
  kFromOne,     // 0 is the background
  kCategories,  // the ids of COCO's categories; of data without such ids as kFromOne
};

std::string_view to_string(ClassNumbers numbers);  // "index", "from_one", "categories"

// How numbers become boxes. `x`, `y`, `w`, `h` are what the head gives; a cell is one place of its grid.
enum class BoxDecode {
  kNone,        // as they are
  kYolov3,      // (sigmoid(x) + cell) / grid, exp(w) * anchor
  kYolov5,      // (2 sigmoid(x) - 0.5 + cell) / grid, (2 sigmoid(w))^2 * anchor; YOLOv4-scaled, v7
  kYolox,       // (x + cell) / grid, exp(w) / grid
  kFastestdet,  // (tanh(x) + cell) / grid, sigmoid(w)
  kFound,       // a row for each detection: its box, score and class; nothing is suppressed
};
enum class BoxForm { kMiddle, kCorners, kCornersYFirst };
enum class ScoreForm { kShares, kSigmoid, kSoftmax };  // softmax: of the classes, and behind them none of these

struct DetectionHead {
  std::string output;                        // name; empty: the outputs in order
  std::string scores, classes;               // outputs of their own for these, where `output` holds boxes alone
  std::vector<std::vector<double>> anchors;  // width and height in pixels of the input
};

// docs/reference/metrics.md has the JSON.
struct Decoder {
  int64_t classes = 0;
  int64_t keypoints = 0;          // behind the classes, each of ...
  int64_t keypoint_values = 0;    // ... x, y and perhaps a score
  std::string masks;              // the output of prototypes, whose weights stand behind these; empty: no masks
  bool angle = false;             // behind these: boxes are turned about their middle, by radians
  int64_t extra = 0;              // values behind these that count for nothing
  bool objectness = true;         // a score of its own before the classes' ...
  bool objectness_first = false;  // ... or before the box
  bool channels_first = false;    // the values of a place lie along the axis before the last two (grid) or the last
  BoxForm box = BoxForm::kMiddle;
  BoxDecode decode = BoxDecode::kNone;
  std::optional<ClassNumbers> class_numbers;     // absent: as the float model's boxes agree
  bool batch_first = false;                      // of kFound: picture, box, class, score; else box, score, class
  ScoreForm activation = ScoreForm::kShares;     // of objectness and classes; softmax of classes alone
  double width = 0, height = 0;                  // of the input in pixels; 0: boxes are shares of it already
  double objectness_power = 1, class_power = 1;  // score = objectness^a * class^b
  std::vector<int64_t> strides;                  // of one output that holds several grids one after the other
  std::vector<DetectionHead> heads;              // empty: the first output
  // A box for each class above the threshold, or for the best class alone.
  bool multi_label = true;
  double score_threshold = 0.001, nms_threshold = 0.6;  // 1: nothing is suppressed
  size_t max_detections = 100;
};
// Throws Error{kInvalidInput} naming the key.
Decoder read_decoder(const std::string& file);
Decoder parse_decoder(const std::string& json, const std::string& where);

// The JSON for a model whose outputs have the form of a common exporter's; empty: they do not.
// docs/reference/metrics.md has the forms. `architecture`: of transformers, as config.json beside the model says it.
std::string find_decoder(const Model& model, const Outputs& first, const Sample& sample,
                         std::string_view architecture = {});
// That this JSON takes boxes for shares of the picture; empty: it does not, or there is none.
std::string note_on_shares(const std::string& detector);
// That the task was asked for and nothing says where boxes are; empty: something does. `detector`: as find_decoder().
std::string note_on_missing_boxes(const MetricOptions& asked, const std::string& detector);

// What a metric of `metrics` found the numbers of classes to be where no description says it; empty: none looked.
std::string note_on_class_numbers(const Metrics& metrics, const Answers& of_float, std::span<const Truth> truths);

// A row of a fixed length for the boxes of a sample, in whatever order they come: where their corners lie, by score and
// class. Null where the detector answers with a place for each cell of a grid: these keep their order. `outputs`: the
// names of the model's answers. Throws as parse_decoder().
std::shared_ptr<const RowMaker> make_box_rows(const std::string& detector, std::vector<std::string> outputs);

// Of sample `row`, best first, after suppression within each class. Throws Error{kInvalidInput} where the outputs have
// not the form described.
std::vector<Detection> decode(const Decoder& decoder, const Answers& answers, int64_t row);

// The least and the highest score of boxes, whatever the thresholds.
struct ScoreRange {
  double least = std::numeric_limits<double>::infinity(), highest = -std::numeric_limits<double>::infinity();
  void take(double score) { least = std::min(least, score), highest = std::max(highest, score); }
};
void add_scores(ScoreRange& range, const Decoder& decoder, const Answers& answers, int64_t row);
// Throws Error{kInvalidInput} where the candidate's boxes all have one score, or none that counts, and the float
// model's differ: such a detector finds nothing, however small its loss.
void require_alive(const ScoreRange& found, const ScoreRange& of_float, const Decoder& decoder);

double intersection_over_union(const Box& a, const Box& b);

// Of sample `row`, for each detection: where the sum of the prototypes, each times its weight, is above 0, within the
// box. The pixels are those of the prototypes. Throws Error{kInvalidInput} as decode().
struct Prototypes {
  std::span<const float> values;  // [count, height, width]
  int64_t count = 0, height = 0, width = 0;
};
Prototypes prototypes_of(const Decoder& decoder, const Answers& answers, int64_t row);
Mask mask_of(const Detection& found, const Prototypes& prototypes);

// COCO's object keypoint similarity: the mean of exp(-d^2 / (2 area (2 sigma)^2)) over the object's labelled keypoints,
// with COCO's sigmas of 17 keypoints and 1 / count of others. Of an object without any, how near the found ones lie to
// its box, doubled. Without an area that is known 0.53 of the box's is taken. `aspect`: for objects without one of
// their own. Both have the same number of points.
double keypoint_similarity(const Pose& found, const Box& object, double aspect);

}  // namespace seqto::internal
