// Mean average precision by the rules of COCO's evaluation.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "metrics/task/detections.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// A detection after matching, in the order of all detections of its class.
struct Ranked {
  double score = 0;
  size_t image = 0;
  bool hit = false;
};

struct ClassResults {
  std::vector<Ranked> ranked;
  std::vector<std::pair<size_t, double>> objects;  // of each image that has some, how many: crowds do not count
};

double overlap(const Box& found, const Box& object) {
  if (!object.crowd) return intersection_over_union(found, object);
  // Of a crowd it counts how much of the detection lies in it.
  const double width = std::min<double>(found.right, object.right) - std::max<double>(found.left, object.left);
  const double height = std::min<double>(found.bottom, object.bottom) - std::max<double>(found.top, object.top);
  const double area = (static_cast<double>(found.right) - found.left) * (static_cast<double>(found.bottom) - found.top);
  return width <= 0 || height <= 0 || area <= 0 ? 0 : width * height / area;
}

struct Object {
  Box box;
  bool counts = true;  // to find it, or not; crowds do not, nor those without what is looked for
};

using Likeness = std::function<double(const Box& found, const Box& object)>;

// The mean of the interpolated precision at recalls of 0, 0.01 ... 1. `counts`: how often each image is there.
// Nothing where no object is.
std::optional<double> average_precision(const ClassResults& results, std::span<const double> counts) {
  double objects = 0;
  for (const auto& [image, number] : results.objects) objects += number * counts[image];
  if (objects == 0) return {};
  std::vector<double> recall, precision;
  double hits = 0, misses = 0;
  for (const Ranked& r : results.ranked) {
    if (counts[r.image] == 0) continue;
    (r.hit ? hits : misses) += counts[r.image];
    recall.push_back(hits / objects);
    precision.push_back(hits / (hits + misses));
  }
  for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  size_t at = 0;
  for (int step = 0; step <= 100; ++step) {
    while (at < recall.size() && recall[at] < step * 0.01) ++at;
    if (at == recall.size()) break;
    sum += precision[at];
  }
  return sum / 101;
}

double mean_over_classes(const std::map<int64_t, ClassResults>& classes, std::span<const double> counts) {
  double sum = 0, number = 0;
  for (const auto& [label, results] : classes)
    if (const auto precision = average_precision(results, counts)) sum += *precision, ++number;
  return number > 0 ? sum / number : 0;
}

// Of a model's answers at one overlap, or likeness.
class Results {
 public:
  explicit Results(double least) : least_(least) {}

  void add_image(size_t image, const std::vector<Detection>& found, const std::vector<Object>& objects,
                 const Likeness& likeness) {
    std::map<int64_t, std::pair<std::vector<Detection>, std::vector<Object>>> by_class;
    for (const Detection& d : found) by_class[d.box.label].first.push_back(d);
    for (const Object& o : objects) by_class[o.box.label].second.push_back(o);
    for (const auto& [label, both] : by_class) match(classes_[label], image, both.first, both.second, likeness);
  }
  void rank() {
    for (auto& [label, results] : classes_)
      std::ranges::stable_sort(results.ranked, std::ranges::greater(), &Ranked::score);
  }
  bool has_objects() const {
    return std::ranges::any_of(classes_, [](const auto& c) { return !c.second.objects.empty(); });
  }
  double mean_precision(std::span<const double> counts) const { return mean_over_classes(classes_, counts); }

 private:
  // Each detection, best first, takes the object that it is most like and that is still free; those that do not count
  // are taken last, crowds by any number of detections, which then count for nothing.
  void match(ClassResults& results, size_t image, const std::vector<Detection>& found, std::vector<Object> objects,
             const Likeness& likeness) const {
    std::ranges::stable_partition(objects, &Object::counts);
    const auto real = static_cast<size_t>(std::ranges::count(objects, true, &Object::counts));
    if (real > 0) results.objects.emplace_back(image, static_cast<double>(real));
    std::vector<bool> taken(objects.size());
    for (const Detection& d : found) {
      double best = least_;
      size_t at = objects.size();
      for (size_t o = 0; o < objects.size(); ++o) {
        if (taken[o] && !objects[o].box.crowd) continue;
        if (at < real && !objects[o].counts) break;
        const double like = likeness(d.box, objects[o].box);
        if (like < best) continue;
        best = like, at = o;
      }
      if (at < objects.size()) taken[at] = true;
      if (at == objects.size() || objects[at].counts) results.ranked.push_back({d.score, image, at < real});
    }
  }

  double least_;
  std::map<int64_t, ClassResults> classes_;
};

// Of keypoints as COCO measures them, else of boxes.
bool is_of_keypoints(std::string_view name) { return name.starts_with("keypoint_"); }

class AveragePrecision : public NamedMetric {
 public:
  AveragePrecision(std::string name, std::vector<double> overlaps, std::optional<Decoder> decoder)
      : NamedMetric(std::move(name), true), overlaps_(std::move(overlaps)), decoder_(std::move(decoder)) {}

  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    if (!decoder_ || decoder_->decode != BoxDecode::kFound)
      answers.require_one_length(fmt::format("[metric] {}:", name()));
    if (!decoder_)
      throw Error(Code::kUsage,
                  fmt::format("[metric] --metric {} and outputs of an unknown form found; {}=FILE.json expected, which "
                              "says how boxes are read (docs/reference/metrics.md)",
                              name(), name()));
    const bool keypoints = is_of_keypoints(name());
    if (keypoints && decoder_->keypoints == 0)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[metric] {}: a decoder without keypoints found; \"keypoints\": [how many, values of each] "
                      "expected, by {}=FILE.json, or kpt_shape in the model's metadata",
                      name(), name()));
    const double aspect = decoder_->width > 0 ? decoder_->width / decoder_->height : 1;
    const Likeness likeness = [&](const Box& found, const Box& object) {
      return keypoints ? keypoint_similarity(found.pose, object, aspect) : overlap(found, object);
    };
    std::vector<Results> all(overlaps_.begin(), overlaps_.end());
    size_t images = 0;
    for (size_t i = 0; i < truths.size(); ++i) {
      if (!truths[i].boxes) continue;
      const std::vector<Detection> found = decode(*decoder_, answers, static_cast<int64_t>(i));
      const std::vector<Object> objects = objects_of(*truths[i].boxes);
      for (Results& results : all) results.add_image(images, found, objects, likeness);
      ++images;
    }
    if (!all.front().has_objects())
      throw Error(Code::kInvalidInput,
                  keypoints
                      ? fmt::format("[metric] {}: no labelled keypoints found; a data.yaml with kpt_shape, or --labels "
                                    "FILE.json in COCO's form with keypoints, expected",
                                    name())
                      : fmt::format("[metric] {}: no objects found; give --labels FILE.json in COCO's form, or a "
                                    "folder of YOLO's text files, one for each image",
                                    name()));
    for (Results& results : all) results.rank();
    const auto mean = [&](std::span<const double> counts) {
      double sum = 0;
      for (const Results& results : all) sum += results.mean_precision(counts);
      return sum / static_cast<double>(all.size());
    };
    Score score{.value = mean(std::vector<double>(images, 1))};
    for_each_resample(images, kReplicates,
                      [&](std::span<const double> counts) { score.replicates.push_back(mean(counts)); });
    return score;
  }

 private:
  // Of its class, as the decoder counts.
  int64_t number_of(const Box& box) const {
    if (decoder_->class_numbers == ClassNumbers::kIndex) return box.label;
    return decoder_->class_numbers == ClassNumbers::kCategories && box.category >= 0 ? box.category : box.label + 1;
  }

  std::vector<Object> objects_of(const std::vector<Box>& boxes) const {
    std::vector<Object> objects;
    for (const Box& box : boxes) {
      objects.push_back({box, !box.crowd});
      objects.back().box.label = number_of(box);
      if (!is_of_keypoints(name())) continue;
      const std::vector<Keypoint>& points = box.pose.points;
      if (!points.empty() && std::ssize(points) != decoder_->keypoints)
        throw Error(Code::kInvalidInput,
                    fmt::format("[metric] {}: objects of {} keypoints found; {} expected, as the decoder says; correct "
                                "\"keypoints\" there, or the labels",
                                name(), points.size(), decoder_->keypoints));
      objects.back().counts &= std::ranges::any_of(points, &Keypoint::labelled);
    }
    return objects;
  }

  std::vector<double> overlaps_;
  std::optional<Decoder> decoder_;  // absent: the outputs' form is not known
};

}  // namespace

std::shared_ptr<const Metric> make_average_precision(std::string name, const std::string& file,
                                                     const std::string& found) {
  std::vector<double> overlaps{0.5};
  if (name.ends_with("map50_95"))
    for (int twentieths = 11; twentieths < 20; ++twentieths) overlaps.push_back(twentieths / 20.0);
  std::optional<Decoder> decoder;
  if (!file.empty()) decoder = read_decoder(file);
  else if (!found.empty()) decoder = parse_decoder(found, "the outputs");
  return std::make_shared<AveragePrecision>(std::move(name), std::move(overlaps), std::move(decoder));
}

}  // namespace seqto::internal
