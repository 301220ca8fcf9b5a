// What a detector's outputs mean: boxes, classes and scores, by a description of the head.
#pragma once

#include <string>
#include <vector>

#include "seqto/metrics.h"

namespace seqto::internal {

struct Detection {
  Box box;  // its label is the class found
  double score = 0;
};

// How numbers become boxes. `x`, `y`, `w`, `h` are what the head gives; a cell is one place of its grid.
enum class BoxDecode {
  kNone,        // as they are
  kYolov3,      // (sigmoid(x) + cell) / grid, exp(w) * anchor
  kYolov5,      // (2 sigmoid(x) - 0.5 + cell) / grid, (2 sigmoid(w))^2 * anchor; YOLOv4-scaled, v7
  kYolox,       // (x + cell) / grid, exp(w) / grid
  kFastestdet,  // (tanh(x) + cell) / grid, sigmoid(w)
};

struct DetectionHead {
  std::string output;                        // name; empty: the outputs in order
  std::vector<std::vector<double>> anchors;  // width and height in pixels of the input
};

// docs/reference/metrics.md has the JSON.
struct Decoder {
  int64_t classes = 0;
  bool objectness = true;         // a score of its own before the classes' ...
  bool objectness_first = false;  // ... or before the box
  bool channels_first = false;    // the values of a place lie along the axis before the last two (grid) or the last
  bool xyxy = false;              // corners, not middle and size
  BoxDecode decode = BoxDecode::kNone;
  bool sigmoid = false;                          // of objectness and classes
  double width = 0, height = 0;                  // of the input in pixels; 0: boxes are shares of it already
  double objectness_power = 1, class_power = 1;  // score = objectness^a * class^b
  std::vector<int64_t> strides;                  // of one output that holds several grids one after the other
  std::vector<DetectionHead> heads;              // empty: the first output
  // A box for each class above the threshold, or for the best class alone.
  bool multi_label = true;
  double score_threshold = 0.001, nms_threshold = 0.6;
  size_t max_detections = 100;
};
// Throws Error{kInvalidInput} naming the key.
Decoder read_decoder(const std::string& file);

// Of sample `row`, best first, after suppression within each class. Throws Error{kInvalidInput} where the outputs have
// not the form described.
std::vector<Detection> decode(const Decoder& decoder, const Answers& answers, int64_t row);

double intersection_over_union(const Box& a, const Box& b);

}  // namespace seqto::internal
