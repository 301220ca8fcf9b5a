// Mean average precision at an intersection over union of 0.5, by the rules of COCO's evaluation.
#include <algorithm>
#include <map>
#include <numeric>

#include "metrics/task/detections.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr double kThreshold = 0.5;

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

// Each detection, best first, takes the object that it covers best and that is still free; crowds are taken last, by
// any number of detections, which then count for nothing.
void match(ClassResults& results, size_t image, const std::vector<Detection>& found, std::vector<Box> objects) {
  std::ranges::stable_partition(objects, [](const Box& b) { return !b.crowd; });
  const auto real = static_cast<size_t>(std::ranges::count(objects, false, &Box::crowd));
  if (real > 0) results.objects.emplace_back(image, static_cast<double>(real));
  std::vector<bool> taken(objects.size());
  for (const Detection& d : found) {
    double best = kThreshold;
    size_t at = objects.size();
    for (size_t o = 0; o < objects.size(); ++o) {
      if (taken[o] && !objects[o].crowd) continue;
      if (at < real && objects[o].crowd) break;
      const double covered = overlap(d.box, objects[o]);
      if (covered < best) continue;
      best = covered, at = o;
    }
    if (at < objects.size()) taken[at] = true;
    if (at == objects.size() || !objects[at].crowd) results.ranked.push_back({d.score, image, at < real});
  }
}

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

class Map50 : public NamedMetric {
 public:
  explicit Map50(Decoder decoder) : NamedMetric("map50", true), decoder_(std::move(decoder)) {}

  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    answers.require_one_length("[metric] map50:");
    std::map<int64_t, ClassResults> classes;
    size_t images = 0;
    for (size_t i = 0; i < truths.size(); ++i)
      if (truths[i].boxes)
        add_image(classes, images++, decode(decoder_, answers, static_cast<int64_t>(i)), *truths[i].boxes);
    if (std::ranges::all_of(classes, [](const auto& c) { return c.second.objects.empty(); }))
      throw Error(Code::kInvalidInput,
                  "[metric] map50: no objects found; give --labels FILE.json in COCO's form, or a folder of YOLO's "
                  "text files, one for each image");
    for (auto& [label, results] : classes)
      std::ranges::stable_sort(results.ranked, std::ranges::greater(), &Ranked::score);
    Score score{.value = mean_over_classes(classes, std::vector<double>(images, 1))};
    for_each_resample(images, kReplicates, [&](std::span<const double> counts) {
      score.replicates.push_back(mean_over_classes(classes, counts));
    });
    return score;
  }

 private:
  static void add_image(std::map<int64_t, ClassResults>& classes, size_t image, const std::vector<Detection>& found,
                        const std::vector<Box>& objects) {
    std::map<int64_t, std::pair<std::vector<Detection>, std::vector<Box>>> by_class;
    for (const Detection& d : found) by_class[d.box.label].first.push_back(d);
    for (const Box& b : objects) by_class[b.label].second.push_back(b);
    for (const auto& [label, both] : by_class) match(classes[label], image, both.first, both.second);
  }

  Decoder decoder_;
};

}  // namespace

std::shared_ptr<const Metric> make_map50(const std::string& file) {
  return std::make_shared<Map50>(read_decoder(file));
}

}  // namespace seqto::internal
