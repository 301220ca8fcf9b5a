#include "metrics/task/detections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

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
  throw Error(Code::kInvalidInput, fmt::format("[metric] map50: output '{}' of shape [{}] found; {}; correct the "
                                               "decoder's file",
                                               output, fmt::join(dims, ", "), expected));
}

class Decoding {
 public:
  Decoding(const Decoder& decoder, const Answers& answers, int64_t row) : d_(decoder), answers_(answers), row_(row) {}

  std::vector<Detection> run() {
    if (d_.heads.empty()) add(0, {});
    for (size_t h = 0; h < d_.heads.size(); ++h) {
      const std::string& name = d_.heads[h].output;
      const auto found = std::ranges::find(answers_.names, name);
      const size_t index = name.empty() ? h : static_cast<size_t>(found - answers_.names.begin());
      if (index >= answers_.outputs.size())
        throw Error(Code::kInvalidInput,
                    fmt::format("[metric] map50: no output {} found; one of {} expected; correct the decoder's file",
                                name.empty() ? std::to_string(h) : "'" + name + "'", fmt::join(answers_.names, ", ")));
      add(index, d_.heads[h].anchors);
    }
    return std::move(found_);
  }

 private:
  int64_t channels() const { return 4 + d_.objectness + d_.classes; }

  void add(size_t output, const std::vector<std::vector<double>>& anchors) {
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
    if (d_.decode == BoxDecode::kNone || !d_.strides.empty()) return {0, 0};
    const bool last_two = d_.channels_first && dims.size() >= 3;
    const bool before_last = !d_.channels_first && dims.size() >= 3;
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
      throw Error(Code::kInvalidInput,
                  fmt::format("[metric] map50: {} boxes found; {} expected by \"strides\" and \"input\"; correct the "
                              "decoder's file",
                              places, cells.size()));
    return cells;
  }

  void add_all(const Places& places, std::vector<Cell> cells) {
    if (!d_.strides.empty()) cells = cells_of_strides(places.count);
    for (int64_t p = 0; p < places.count; ++p)
      add_box(places, p, cells.empty() ? Cell{} : cells[static_cast<size_t>(p)]);
  }

  double squashed(double value) const { return d_.sigmoid ? sigmoid(value) : value; }

  void add_box(const Places& places, int64_t p, const Cell& cell) {
    const int64_t first_class = 4 + d_.objectness;
    const double objectness =
        d_.objectness ? std::pow(squashed(places.at(p, d_.objectness_first ? 0 : 4)), d_.objectness_power) : 1;
    if (objectness < d_.score_threshold) return;
    int64_t best = 0;
    for (int64_t c = 1; c < d_.classes && !d_.multi_label; ++c)
      if (places.at(p, first_class + c) > places.at(p, first_class + best)) best = c;
    std::optional<Box> box;
    for (int64_t c = d_.multi_label ? 0 : best; c < (d_.multi_label ? d_.classes : best + 1); ++c) {
      const double score = objectness * std::pow(squashed(places.at(p, first_class + c)), d_.class_power);
      if (!(score >= d_.score_threshold)) continue;
      if (!box) box = box_at(places, p, cell);
      found_.push_back({*box, score});
      found_.back().box.label = c;
    }
  }

  Box box_at(const Places& places, int64_t p, const Cell& cell) const {
    const int64_t first = d_.objectness && d_.objectness_first ? 1 : 0;
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
        break;
    }
    if (!d_.xyxy) return middle(x / width, y / height, w / width, h / height);
    return {static_cast<float>(x / width), static_cast<float>(y / height), static_cast<float>(w / width),
            static_cast<float>(h / height)};
  }

  const Decoder& d_;
  const Answers& answers_;
  int64_t row_;
  std::vector<Detection> found_;
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
  const double width = std::min<double>(a.right, b.right) - std::max<double>(a.left, b.left);
  const double height = std::min<double>(a.bottom, b.bottom) - std::max<double>(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Box& box) {
    return (static_cast<double>(box.right) - box.left) * (static_cast<double>(box.bottom) - box.top);
  };
  return width * height / (area(a) + area(b) - width * height);
}

std::vector<Detection> decode(const Decoder& decoder, const Answers& answers, int64_t row) {
  std::vector<Detection> found = Decoding(decoder, answers, row).run();
  std::ranges::stable_sort(found, std::ranges::greater(), &Detection::score);
  return suppress(found, decoder.nms_threshold, decoder.max_detections);
}

}  // namespace seqto::internal
