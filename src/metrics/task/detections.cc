#include "metrics/task/detections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The values of an output, place by place: `at(place, channel)`.
struct Places {
  std::span<const float> values;
  int64_t count = 0, channels = 0;
  bool channels_first = false;
  double at(int64_t place, int64_t channel) const {
    return values[channels_first ? channel * count + place : place * channels + channel];
  }
};

// A place's cell and grid, and its anchor.
struct Cell {
  double x = 0, y = 0, columns = 1, rows = 1;
  double anchor_width = 1, anchor_height = 1;  // in pixels
};

[[noreturn]] void fail(const std::string& output, const std::vector<int64_t>& dims, const std::string& expected) {
  throw Error(Code::kInvalidInput, fmt::format("[metric] detections: output '{}' of shape [{}] found; {}; correct the "
                                               "decoder's file",
                                               output, fmt::join(dims, ", "), expected));
}

class Decoding {
 public:
  Decoding(const Decoder& decoder, const Answers& answers, int64_t row)
      : d_(decoder),
        answers_(answers),
        row_(row),
        masks_(d_.masks.empty() ? 0 : prototypes_of(decoder, answers, row).count) {}

  std::vector<Detection> run() {
    visit();
    return std::move(found_);
  }

  void add_scores(ScoreRange& range) {
    range_ = &range;
    visit();
  }

 private:
  void visit() {
    if (d_.heads.empty()) add_output(0, {});
    for (size_t h = 0; h < d_.heads.size(); ++h) {
      const DetectionHead& head = d_.heads[h];
      const size_t output = head.output.empty() ? h : place_of(head.output);
      if (output >= answers_.outputs.size()) fail_without(std::to_string(h));
      if (head.scores.empty()) add_output(output, head.anchors);
      else add_parts(output, head);
    }
  }

  [[noreturn]] void fail_without(const std::string& output) const {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] detections: no output {} found; one of {} expected; correct the decoder's file",
                            output, fmt::join(answers_.names, ", ")));
  }

  size_t place_of(const std::string& name) const {
    const auto found = std::ranges::find(answers_.names, name);
    if (found == answers_.names.end()) fail_without("'" + name + "'");
    return static_cast<size_t>(found - answers_.names.begin());
  }

  int64_t score_columns() const { return d_.classes + (d_.activation == ScoreForm::kSoftmax ? 1 : 0); }
  int64_t channels() const {
    const int64_t behind = d_.keypoints * d_.keypoint_values + masks_ + d_.angle + d_.extra;
    return behind + (d_.decode == BoxDecode::kFound ? 6 + d_.batch_first : 4 + d_.objectness + score_columns());
  }

  // Boxes, scores and perhaps classes of outputs of their own, put side by side.
  void add_parts(size_t boxes, const DetectionHead& head) {
    std::vector<size_t> parts{boxes, place_of(head.scores)};
    if (!head.classes.empty()) parts.push_back(place_of(head.classes));
    const auto count = static_cast<int64_t>(answers_.outputs[boxes].row(row_).size()) / 4;
    std::vector<std::span<const float>> rows;
    std::vector<int64_t> widths;
    int64_t width = 0;
    for (const size_t part : parts) {
      rows.push_back(answers_.outputs[part].row(row_));
      widths.push_back(count == 0 ? 0 : static_cast<int64_t>(rows.back().size()) / count);
      width += widths.back();
      if (std::ssize(rows.back()) != count * widths.back())
        fail(answers_.names[part], answers_.dims[part], fmt::format("values for each of {} boxes expected", count));
    }
    if (count == 0) return;
    if (width != channels())
      fail(answers_.names[parts[1]], answers_.dims[parts[1]],
           fmt::format("{} values for each of {} boxes expected", channels() - 4, count));
    std::vector<float> joined;
    joined.reserve(static_cast<size_t>(count * width));
    for (int64_t p = 0; p < count; ++p)
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto own = rows[i].subspan(static_cast<size_t>(p * widths[i]), static_cast<size_t>(widths[i]));
        joined.insert(joined.end(), own.begin(), own.end());
      }
    add_all({joined, count, width, false}, {});
  }

  void add_output(size_t output, const std::vector<std::vector<double>>& anchors) {
    // Axes of 1 tell nothing, but for the grid's.
    std::vector<int64_t> dims = answers_.dims[output];
    if (!dims.empty() && dims[0] == 1) dims.erase(dims.begin());
    const std::string& name = answers_.names[output];
    const auto boxes_a_cell = static_cast<int64_t>(std::max<size_t>(1, anchors.size()));
    // [channels, ...] or [..., channels]; with anchors [boxes * channels, rows, columns], [boxes, rows, columns,
    // channels] and the like.
    const std::span<const float> row = answers_.outputs[output].row(row_);
    const int64_t total = static_cast<int64_t>(row.size());
    if (total % channels() != 0)
      fail(name, answers_.dims[output],
           fmt::format("{} values for each box expected ({} classes{})", channels(), d_.classes,
                       d_.objectness ? ", objectness" : ""));
    const int64_t places = total / channels();
    const auto [rows, columns] = grid(dims, boxes_a_cell, places, name, answers_.dims[output]);
    const int64_t cells = rows * columns;
    if (cells == 0) return add_all({row, places, channels(), d_.channels_first}, {});
    for (int64_t b = 0; b < boxes_a_cell; ++b) {
      const int64_t size = cells * channels();
      std::vector<Cell> grid_cells;
      for (int64_t i = 0; i < cells; ++i) {
        const int64_t x = i % columns, y = i / columns;
        Cell cell{static_cast<double>(x), static_cast<double>(y), static_cast<double>(columns),
                  static_cast<double>(rows)};
        if (!anchors.empty()) cell.anchor_width = anchors[b][0], cell.anchor_height = anchors[b][1];
        grid_cells.push_back(cell);
      }
      add_all({row.subspan(b * size, size), cells, channels(), d_.channels_first}, grid_cells);
    }
  }

  // Rows and columns of a head's grid; 0: boxes without one.
  std::pair<int64_t, int64_t> grid(const std::vector<int64_t>& dims, int64_t boxes, int64_t places,
                                   const std::string& name, const std::vector<int64_t>& shape) {
    if (d_.decode == BoxDecode::kNone || d_.decode == BoxDecode::kFound || !d_.strides.empty()) return {0, 0};
    const bool last_two = d_.channels_first && dims.size() >= 3;
    const bool before_last = !d_.channels_first && dims.size() >= 3;
    if (before_last && boxes > 1 && dims.size() < 4)
      fail(name, shape, "an axis for the boxes of a cell, before rows and columns, expected");
    if (!last_two && !before_last)
      fail(name, shape, "an axis each for the rows and columns of the grid expected, or \"strides\" in the file");
    const size_t at = dims.size() - (last_two ? 2 : 3);
    if (dims[at] * dims[at + 1] * boxes != places)
      fail(name, shape, fmt::format("{} boxes in each of {} x {} cells expected", boxes, dims[at], dims[at + 1]));
    return {dims[at], dims[at + 1]};
  }

  // The cells of several grids one after the other.
  std::vector<Cell> cells_of_strides(int64_t places) const {
    std::vector<Cell> cells;
    for (const int64_t stride : d_.strides) {
      const auto columns = static_cast<int64_t>(d_.width) / stride, rows = static_cast<int64_t>(d_.height) / stride;
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x)
          cells.push_back({static_cast<double>(x), static_cast<double>(y), static_cast<double>(columns),
                           static_cast<double>(rows)});
    }
    if (static_cast<int64_t>(cells.size()) != places)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[metric] detections: {} boxes found; {} expected by \"strides\" and \"input\"; correct the "
                      "decoder's file",
                      places, cells.size()));
    return cells;
  }

  void add_all(const Places& places, std::vector<Cell> cells) {
    if (!d_.strides.empty()) cells = cells_of_strides(places.count);
    for (int64_t p = 0; p < places.count; ++p)
      add_box(places, p, cells.empty() ? Cell{} : cells[static_cast<size_t>(p)]);
  }

  double squashed(double value) const { return d_.activation == ScoreForm::kSigmoid ? sigmoid(value) : value; }

  // What a class's exponential is divided by.
  std::optional<std::pair<double, double>> softmax_at(const Places& places, int64_t p, int64_t first_class) const {
    if (d_.activation != ScoreForm::kSoftmax) return {};
    double highest = places.at(p, first_class), sum = 0;
    for (int64_t c = 1; c < score_columns(); ++c) highest = std::max(highest, places.at(p, first_class + c));
    for (int64_t c = 0; c < score_columns(); ++c) sum += std::exp(places.at(p, first_class + c) - highest);
    return std::pair{highest, sum};
  }

  void add_found(const Places& places, int64_t p) {
    const double score = places.at(p, d_.batch_first ? 6 : 4);
    if (range_) return range_->take(score);
    if (!(score >= d_.score_threshold)) return;
    found_.push_back(detection_at(places, p, {}, 6 + d_.batch_first));
    found_.back().score = score;
    const double label = places.at(p, 5);
    found_.back().box.label = std::isnan(label) ? 0 : static_cast<int64_t>(std::clamp<double>(label, 0, 1e9));
  }

  void add_box(const Places& places, int64_t p, const Cell& cell) {
    if (d_.decode == BoxDecode::kFound) return add_found(places, p);
    const int64_t first_class = 4 + d_.objectness;
    const double objectness =
        d_.objectness ? std::pow(squashed(places.at(p, d_.objectness_first ? 0 : 4)), d_.objectness_power) : 1;
    if (objectness < d_.score_threshold && !range_) return;
    const auto softmax = softmax_at(places, p, first_class);
    int64_t best = 0;
    for (int64_t c = 1; c < d_.classes && !d_.multi_label; ++c)
      if (places.at(p, first_class + c) > places.at(p, first_class + best)) best = c;
    std::optional<Detection> found;
    for (int64_t c = d_.multi_label ? 0 : best; c < (d_.multi_label ? d_.classes : best + 1); ++c) {
      const double value = places.at(p, first_class + c);
      const double share = softmax ? std::exp(value - softmax->first) / softmax->second : squashed(value);
      const double score = objectness * std::pow(share, d_.class_power);
      if (range_) {
        range_->take(score);
        continue;
      }
      if (!(score >= d_.score_threshold)) continue;
      if (!found) found = detection_at(places, p, cell, first_class + score_columns());
      found_.push_back(*found);
      found_.back().score = score;
      found_.back().box.label = c;
    }
  }

  // What it is of all classes; `behind`: the first value behind them.
  Detection detection_at(const Places& places, int64_t p, const Cell& cell, int64_t behind) const {
    Detection found{.box = box_at(places, p, cell)};
    add_keypoints(found.box.pose, places, p, behind);
    behind += d_.keypoints * d_.keypoint_values;
    for (int64_t k = 0; k < masks_; ++k) found.mask_weights.push_back(static_cast<float>(places.at(p, behind + k)));
    if (d_.angle) turn(found.box, places.at(p, behind + masks_));
    return found;
  }

  void turn(Box& box, double angle) const {
    const double width = d_.width > 0 ? d_.width : 1, height = d_.height > 0 ? d_.height : 1;
    const double left = box.left * width, right = box.right * width, top = box.top * height,
                 bottom = box.bottom * height;
    Outline corners = turned_box((left + right) / 2, (top + bottom) / 2, right - left, bottom - top, angle);
    for (Corner& c : corners) c.x /= static_cast<float>(width), c.y /= static_cast<float>(height);
    const auto [x0, x1] = std::ranges::minmax(corners, {}, &Corner::x);
    const auto [y0, y1] = std::ranges::minmax(corners, {}, &Corner::y);
    box.left = x0.x, box.right = x1.x, box.top = y0.y, box.bottom = y1.y;
    box.outlines = {std::move(corners)};
  }

  void add_keypoints(Pose& pose, const Places& places, int64_t p, int64_t first) const {
    const double width = d_.width > 0 ? d_.width : 1, height = d_.height > 0 ? d_.height : 1;
    for (int64_t k = 0; k < d_.keypoints; ++k) {
      const int64_t at = first + k * d_.keypoint_values;
      pose.points.push_back(
          {static_cast<float>(places.at(p, at) / width), static_cast<float>(places.at(p, at + 1) / height), true});
    }
  }

  Box box_at(const Places& places, int64_t p, const Cell& cell) const {
    const int64_t first = (d_.objectness && d_.objectness_first) || d_.batch_first ? 1 : 0;
    const double x = places.at(p, first), y = places.at(p, first + 1), w = places.at(p, first + 2),
                 h = places.at(p, first + 3);
    const double width = d_.width > 0 ? d_.width : 1, height = d_.height > 0 ? d_.height : 1;
    const auto middle = [](double cx, double cy, double bw, double bh) {
      return Box{static_cast<float>(cx - bw / 2), static_cast<float>(cy - bh / 2), static_cast<float>(cx + bw / 2),
                 static_cast<float>(cy + bh / 2)};
    };
    switch (d_.decode) {
      case BoxDecode::kYolov3:
        return middle((sigmoid(x) + cell.x) / cell.columns, (sigmoid(y) + cell.y) / cell.rows,
                      std::exp(w) * cell.anchor_width / width, std::exp(h) * cell.anchor_height / height);
      case BoxDecode::kYolov5:
        return middle((2 * sigmoid(x) - 0.5 + cell.x) / cell.columns, (2 * sigmoid(y) - 0.5 + cell.y) / cell.rows,
                      std::pow(2 * sigmoid(w), 2) * cell.anchor_width / width,
                      std::pow(2 * sigmoid(h), 2) * cell.anchor_height / height);
      case BoxDecode::kYolox:
        return middle((x + cell.x) / cell.columns, (y + cell.y) / cell.rows, std::exp(w) / cell.columns,
                      std::exp(h) / cell.rows);
      case BoxDecode::kFastestdet:
        return middle((std::tanh(x) + cell.x) / cell.columns, (std::tanh(y) + cell.y) / cell.rows, sigmoid(w),
                      sigmoid(h));
      case BoxDecode::kNone:
      case BoxDecode::kFound:
        break;
    }
    const auto corners = [&](double left, double top, double right, double bottom) {
      return Box{static_cast<float>(left / width), static_cast<float>(top / height), static_cast<float>(right / width),
                 static_cast<float>(bottom / height)};
    };
    switch (d_.box) {
      case BoxForm::kCorners:
        return corners(x, y, w, h);
      case BoxForm::kCornersYFirst:
        return corners(y, x, h, w);
      case BoxForm::kMiddle:
        break;
    }
    return middle(x / width, y / height, w / width, h / height);
  }

  const Decoder& d_;
  const Answers& answers_;
  int64_t row_;
  int64_t masks_;  // prototypes
  std::vector<Detection> found_;
  ScoreRange* range_ = nullptr;  // of the scores; there: nothing else is looked for
};

// Greedy non-maximum suppression within each class; `sorted` is best first.
std::vector<Detection> suppress(const std::vector<Detection>& sorted, double threshold, size_t most) {
  std::vector<Detection> kept;
  std::map<int64_t, std::vector<Box>> by_class;
  for (const Detection& d : sorted) {
    if (kept.size() == most) break;
    std::vector<Box>& others = by_class[d.box.label];
    const bool covered = std::ranges::any_of(
        others, [&](const Box& other) { return intersection_over_union(d.box, other) > threshold; });
    if (covered) continue;
    others.push_back(d.box);
    kept.push_back(d);
  }
  return kept;
}

}  // namespace

double intersection_over_union(const Box& a, const Box& b) {
  if (!a.outlines.empty()) {
    const Outline &first = a.outlines[0], second = b.outlines.empty() ? corners_of(b) : b.outlines[0];
    const double common = common_area(first, second), all = area_of(first) + area_of(second) - common;
    return all > 0 ? common / all : 0;
  }
  const double width = std::min<double>(a.right, b.right) - std::max<double>(a.left, b.left);
  const double height = std::min<double>(a.bottom, b.bottom) - std::max<double>(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Box& box) {
    return (static_cast<double>(box.right) - box.left) * (static_cast<double>(box.bottom) - box.top);
  };
  return width * height / (area(a) + area(b) - width * height);
}

Prototypes prototypes_of(const Decoder& decoder, const Answers& answers, int64_t row) {
  const auto found = std::ranges::find(answers.names, decoder.masks);
  if (found == answers.names.end())
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] detections: no output '{}' found, whose prototypes masks are made of; one of {} "
                            "expected; correct \"masks\" in the decoder's file",
                            decoder.masks, fmt::join(answers.names, ", ")));
  const auto at = static_cast<size_t>(found - answers.names.begin());
  std::vector<int64_t> dims = answers.dims[at];
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  if (dims.size() != 3) fail(decoder.masks, answers.dims[at], "[1, prototypes, rows, columns] expected");
  const std::span<const float> values = answers.outputs[at].row(row);
  if (std::ssize(values) != dims[0] * dims[1] * dims[2])
    fail(decoder.masks, answers.dims[at], "prototypes of one shape for all samples expected");
  return {values, dims[0], dims[1], dims[2]};
}

Mask mask_of(const Detection& found, const Prototypes& prototypes) {
  const int64_t width = prototypes.width, height = prototypes.height, size = width * height;
  Mask mask(width, height);
  const int64_t right = first_pixel(found.box.right, width), bottom = first_pixel(found.box.bottom, height);
  for (int64_t y = first_pixel(found.box.top, height); y < bottom; ++y)
    for (int64_t x = first_pixel(found.box.left, width); x < right; ++x) {
      double sum = 0;
      for (int64_t k = 0; k < prototypes.count; ++k)
        sum += static_cast<double>(found.mask_weights[k]) * prototypes.values[k * size + y * width + x];
      if (sum > 0) mask.set(x, y);
    }
  return mask;
}

void add_scores(ScoreRange& range, const Decoder& decoder, const Answers& answers, int64_t row) {
  Decoding(decoder, answers, row).add_scores(range);
}

void require_alive(const ScoreRange& found, const ScoreRange& of_float, const Decoder& decoder) {
  constexpr double kLeastSpread = 0.01;  // below it the float model finds nothing either
  if (!(of_float.highest - of_float.least > kLeastSpread)) return;
  if (found.highest > found.least && found.highest >= decoder.score_threshold) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[evaluate] scores of {:.3g} to {:.3g} found, the float model's go from {:.3g} to {:.3g}; a "
                          "detector that finds something expected; layers behind the last convolutions are better left "
                          "in float",
                          found.least, found.highest, of_float.least, of_float.highest));
}

std::vector<Detection> decode(const Decoder& decoder, const Answers& answers, int64_t row) {
  std::vector<Detection> found = Decoding(decoder, answers, row).run();
  std::ranges::stable_sort(found, std::ranges::greater(), &Detection::score);
  if (decoder.nms_threshold >= 1) {
    found.resize(std::min(found.size(), decoder.max_detections));
    return found;
  }
  return suppress(found, decoder.nms_threshold, decoder.max_detections);
}

}  // namespace seqto::internal
