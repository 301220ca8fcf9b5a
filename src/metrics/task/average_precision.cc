// Mean average precision by the rules of COCO's evaluation.
#include <fmt/format.h>

#include <algorithm>
#include <array>
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
  if (!found.outlines.empty()) {
    const double area = area_of(found.outlines[0]);
    return area > 0 ? common_area(found.outlines[0], corners_of(object)) / area : 0;
  }
  const double width = std::min<double>(found.right, object.right) - std::max<double>(found.left, object.left);
  const double height = std::min<double>(found.bottom, object.bottom) - std::max<double>(found.top, object.top);
  const double area = (static_cast<double>(found.right) - found.left) * (static_cast<double>(found.bottom) - found.top);
  return width <= 0 || height <= 0 || area <= 0 ? 0 : width * height / area;
}

struct Object {
  Box box;
  bool counts = true;  // to find it, or not; crowds do not, nor those without what is looked for
};

// What was found in an image, and what is there.
struct Image {
  std::vector<Detection> found;
  std::vector<Object> objects;
  std::vector<double> likeness;  // [found, objects], of those of one class
  double like(size_t f, size_t o) const { return likeness[f * objects.size() + o]; }
};

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

// A class as it is numbered.
int64_t number_of(const Box& object, ClassNumbers numbers) {
  if (numbers == ClassNumbers::kIndex) return object.label;
  return numbers == ClassNumbers::kCategories && object.category >= 0 ? object.category : object.label + 1;
}

// What most of the float model's boxes on objects agree with, each by its score. By chance alone a wrong numbering has
// fewer: a model that finds objects names most of them rightly.
ClassNumbers numbers_agreed_with(const Decoder& decoder, const Answers& of_float, std::span<const Truth> truths) {
  constexpr std::array kAll{ClassNumbers::kIndex, ClassNumbers::kFromOne, ClassNumbers::kCategories};
  std::array<double, kAll.size()> agreed{};
  for (size_t i = 0; i < truths.size(); ++i) {
    if (!truths[i].boxes) continue;
    for (const Detection& d : decode(decoder, of_float, static_cast<int64_t>(i)))
      for (const Box& object : *truths[i].boxes) {
        if (object.crowd || overlap(d.box, object) < 0.5) continue;
        for (size_t n = 0; n < kAll.size(); ++n)
          if (number_of(object, kAll[n]) == d.box.label) agreed[n] += d.score;
      }
  }
  return kAll[static_cast<size_t>(std::ranges::max_element(agreed) - agreed.begin())];
}

// Of a model's answers at one overlap, or likeness.
class Results {
 public:
  explicit Results(double least) : least_(least) {}

  void add_image(size_t number, const Image& image) {
    std::map<int64_t, std::pair<std::vector<size_t>, std::vector<size_t>>> by_class;
    for (size_t f = 0; f < image.found.size(); ++f) by_class[image.found[f].box.label].first.push_back(f);
    for (size_t o = 0; o < image.objects.size(); ++o) by_class[image.objects[o].box.label].second.push_back(o);
    for (const auto& [label, both] : by_class) match(classes_[label], number, image, both.first, both.second);
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
  void match(ClassResults& results, size_t number, const Image& image, const std::vector<size_t>& found,
             std::vector<size_t> objects) const {
    const auto object = [&](size_t o) -> const Object& { return image.objects[objects[o]]; };
    const auto others = std::ranges::stable_partition(objects, [&](size_t o) { return image.objects[o].counts; });
    const auto real = static_cast<size_t>(others.begin() - objects.begin());
    if (real > 0) results.objects.emplace_back(number, static_cast<double>(real));
    std::vector<bool> taken(objects.size());
    for (const size_t f : found) {
      double best = least_;
      size_t at = objects.size();
      for (size_t o = 0; o < objects.size(); ++o) {
        if (taken[o] && !object(o).box.crowd) continue;
        if (at < real && !object(o).counts) break;
        const double like = image.like(f, objects[o]);
        if (!(like >= best)) continue;  // a box that is no number is like none
        best = like, at = o;
      }
      if (at < objects.size()) taken[at] = true;
      if (at == objects.size() || object(at).counts)
        results.ranked.push_back({image.found[f].score, number, at < real});
    }
  }

  double least_;
  std::map<int64_t, ClassResults> classes_;
};

// What of an object is compared.
enum class Part { kBox, kKeypoints, kMask };

Part part_of(std::string_view metric) {
  return metric.starts_with("keypoint_") ? Part::kKeypoints : metric.starts_with("mask_") ? Part::kMask : Part::kBox;
}

// Of masks of one size. An object without an outline is its box.
class MaskOverlaps {
 public:
  MaskOverlaps(const Decoder& decoder, const Answers& answers, int64_t row)
      : prototypes_(prototypes_of(decoder, answers, row)) {}

  Mask of(const Detection& found) const { return mask_of(found, prototypes_); }
  Mask of(const Box& object) const {
    const std::vector<Outline> box{corners_of(object)};
    return filled(object.outlines.empty() ? box : object.outlines, prototypes_.width, prototypes_.height);
  }
  static double overlap(const Mask& found, const Mask& object, bool crowd) {
    const auto common = static_cast<double>(found.common(object)), own = static_cast<double>(found.count());
    const double all = crowd ? own : own + static_cast<double>(object.count()) - common;
    return all > 0 ? common / all : 0;
  }

 private:
  Prototypes prototypes_;
};

class AveragePrecision : public NamedMetric {
 public:
  AveragePrecision(const std::string& name, std::vector<double> overlaps, std::optional<Decoder> decoder)
      : NamedMetric(name, true), part_(part_of(name)), overlaps_(std::move(overlaps)), decoder_(std::move(decoder)) {}

  Score score(const Answers& answers, const Answers& reference, std::span<const Truth> truths) const override {
    if (!decoder_ || decoder_->decode != BoxDecode::kFound)
      answers.require_one_length(fmt::format("[metric] {}:", name()));
    if (!decoder_)
      throw Error(Code::kUsage,
                  fmt::format("[metric] --metric {} and outputs of an unknown form found; {}=FILE.json expected, which "
                              "says how boxes are read (docs/reference/metrics.md)",
                              name(), name()));
    require_part();
    const ClassNumbers numbers = numbers_of(reference, truths);
    std::vector<Results> all(overlaps_.begin(), overlaps_.end());
    size_t images = 0;
    for (size_t i = 0; i < truths.size(); ++i) {
      if (!truths[i].boxes) continue;
      const auto row = static_cast<int64_t>(i);
      Image image{decode(*decoder_, answers, row), objects_of(*truths[i].boxes, numbers), {}};
      compare(image, answers, row);
      for (Results& results : all) results.add_image(images, image);
      ++images;
    }
    if (!all.front().has_objects())
      throw Error(Code::kInvalidInput, fmt::format("[metric] {}: {}", name(), lacking_truth()));
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

  // As the boxes of the float model have them; nothing where they need not be looked at.
  std::optional<ClassNumbers> found_numbers(const Answers& of_float, std::span<const Truth> truths) const {
    if (!decoder_ || decoder_->class_numbers) return {};
    // Columns of scores may be ids too, as DETR's 91 are COCO's.
    const bool parts = std::ranges::any_of(decoder_->heads, [](const auto& head) { return !head.scores.empty(); });
    if (decoder_->decode != BoxDecode::kFound && !parts) return {};
    return numbers_agreed_with(*decoder_, of_float, truths);
  }

 private:
  // That the decoder finds what is to be compared.
  void require_part() const {
    const bool keypoints = part_ == Part::kKeypoints && decoder_->keypoints == 0;
    const bool masks = part_ == Part::kMask && decoder_->masks.empty();
    if (!keypoints && !masks) return;
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: a decoder without {} expected, by {}=FILE.json, or {}", name(),
                            keypoints ? "keypoints found; \"keypoints\": [how many, values of each]"
                                      : "masks found; \"masks\": \"the output of the prototypes\"",
                            name(),
                            keypoints ? "kpt_shape in the model's metadata"
                                      : "names in the model's metadata that tell how many classes there are"));
  }

  std::string lacking_truth() const {
    switch (part_) {
      case Part::kKeypoints:
        return "no labelled keypoints found; a data.yaml with kpt_shape, or --labels FILE.json in COCO's form with "
               "keypoints, expected";
      case Part::kMask:
        return "no outlines found; YOLO's text files with a line \"class x1 y1 x2 y2 x3 y3 ...\" for each object, or "
               "--labels FILE.json in COCO's form with polygons, expected";
      case Part::kBox:
        break;
    }
    return "no objects found; give --labels FILE.json in COCO's form, or a folder of YOLO's text files, one for each "
           "image";
  }

  void compare(Image& image, const Answers& answers, int64_t row) const {
    const double aspect = decoder_->width > 0 ? decoder_->width / decoder_->height : 1;
    std::optional<MaskOverlaps> masks;
    if (part_ == Part::kMask) masks.emplace(*decoder_, answers, row);
    std::vector<Mask> there;
    for (const Object& o : image.objects)
      if (masks) there.push_back(masks->of(o.box));
    for (const Detection& d : image.found) {
      std::optional<Mask> own;
      for (size_t o = 0; o < image.objects.size(); ++o) {
        const Box& object = image.objects[o].box;
        double like = 0;
        if (object.label == d.box.label && masks) {
          if (!own) own = masks->of(d);
          like = MaskOverlaps::overlap(*own, there[o], object.crowd);
        } else if (object.label == d.box.label) {
          like = part_ == Part::kKeypoints ? keypoint_similarity(d.box.pose, object, aspect) : overlap(d.box, object);
        }
        image.likeness.push_back(like);
      }
    }
  }

  ClassNumbers numbers_of(const Answers& of_float, std::span<const Truth> truths) const {
    if (decoder_->class_numbers) return *decoder_->class_numbers;
    return found_numbers(of_float, truths).value_or(ClassNumbers::kIndex);
  }

  // How many classes there are, rows of found boxes do not tell.
  void require_class(const Box& box) const {
    if (decoder_->classes < 1 || decoder_->decode == BoxDecode::kFound || box.label < decoder_->classes) return;
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: an object of class {} and a detector of {} found; classes from 0 to {} "
                            "expected; correct the labels, or \"classes\" in {}=FILE.json; where no file says how many "
                            "there are, \"names\" of a data.yaml tell it too",
                            name(), box.label, decoder_->classes, decoder_->classes - 1, name()));
  }

  std::vector<Object> objects_of(const std::vector<Box>& boxes, ClassNumbers numbers) const {
    std::vector<Object> objects;
    for (const Box& box : boxes) {
      require_class(box);
      objects.push_back({box, !box.crowd});
      objects.back().box.label = number_of(box, numbers);
      if (part_ == Part::kMask) objects.back().counts &= !box.outlines.empty();
      if (part_ != Part::kKeypoints) continue;
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

  Part part_;
  std::vector<double> overlaps_;
  std::optional<Decoder> decoder_;  // absent: the outputs' form is not known
};

}  // namespace

std::string note_on_class_numbers(const Metrics& metrics, const Answers& of_float, std::span<const Truth> truths) {
  for (const auto& metric : metrics)
    if (const auto* precision = dynamic_cast<const AveragePrecision*>(metric.get()))
      if (const auto found = precision->found_numbers(of_float, truths))
        return fmt::format("classes of boxes: read as \"class_numbers\": \"{}\", as most of the float model's agree",
                           to_string(*found));
  return {};
}

std::shared_ptr<const Metric> make_average_precision(const std::string& name, const std::string& file,
                                                     const std::string& found) {
  std::vector<double> overlaps{0.5};
  if (name.ends_with("map50_95"))
    for (int twentieths = 11; twentieths < 20; ++twentieths) overlaps.push_back(twentieths / 20.0);
  std::optional<Decoder> decoder;
  if (!file.empty()) {
    decoder = read_decoder(file);
    // Who wrote which column is which class has said what they are numbered by.
    if (decoder->decode != BoxDecode::kFound && !decoder->class_numbers) decoder->class_numbers = ClassNumbers::kIndex;
  } else if (!found.empty()) {
    decoder = parse_decoder(found, "the outputs");
  }
  return std::make_shared<AveragePrecision>(name, std::move(overlaps), std::move(decoder));
}

}  // namespace seqto::internal
