// Lists of boxes as rows that losses compare: neither their order nor their number counts, but what is found where.
#include <algorithm>
#include <cmath>

#include "metrics/task/detections.h"

namespace seqto::internal {
namespace {

class BoxRows : public RowMaker {
 public:
  BoxRows(Decoder decoder, std::vector<std::string> outputs)
      : decoder_(std::move(decoder)), outputs_(std::move(outputs)) {}

  // Two maps, of corners left above and right below, for each class by its number modulo kClasses. A box adds its score
  // to the four places around each of its corners, the nearer the more. Of keypoints, turned boxes and masks one more:
  // of the points, and of the masks' pixels.
  std::vector<float> row(std::span<const Tensor> answers) const override {
    Answers one(outputs_);
    one.append(answers.first(std::min(answers.size(), outputs_.size())));
    const bool more = decoder_.keypoints > 0 || decoder_.angle || !decoder_.masks.empty();
    std::vector<float> maps(static_cast<size_t>(kClasses * (2 + more) * kSide * kSide));
    for (const Detection& d : decode(decoder_, one, 0)) {
      const int64_t first = d.box.label % kClasses * (2 + more);
      add(maps, first, d.box.left, d.box.top, d.score);
      add(maps, first + 1, d.box.right, d.box.bottom, d.score);
      for (const Keypoint& point : d.box.pose.points) add(maps, first + 2, point.x, point.y, d.score);
      for (const Outline& outline : d.box.outlines)
        for (const Corner& corner : outline) add(maps, first + 2, corner.x, corner.y, d.score);
      if (!decoder_.masks.empty()) add_mask(maps, first + 2, d, prototypes_of(decoder_, one, 0));
    }
    return maps;
  }

 private:
  // One place has a whole pixel's score where the whole of it is covered.
  static void add_mask(std::vector<float>& maps, int64_t map, const Detection& d, const Prototypes& prototypes) {
    const Mask mask = mask_of(d, prototypes);
    const auto width = static_cast<double>(prototypes.width), height = static_cast<double>(prototypes.height);
    const double share = d.score * kSide * kSide / (width * height);
    for (int64_t y = 0; y < prototypes.height; ++y)
      for (int64_t x = 0; x < prototypes.width; ++x)
        if (mask.covers(x, y))
          add(maps, map, (static_cast<double>(x) + 0.5) / width, (static_cast<double>(y) + 0.5) / height, share);
  }

  static constexpr int64_t kClasses = 8, kSide = 32;

  static void add(std::vector<float>& maps, int64_t map, double x, double y, double score) {
    if (!std::isfinite(x) || !std::isfinite(y)) return;
    const auto place = [](double share) { return std::clamp(share, 0.0, 1.0) * (kSide - 1); };
    const double column = place(x), row = place(y);
    const auto left = static_cast<int64_t>(column), top = static_cast<int64_t>(row);
    for (int64_t v = top; v <= std::min(top + 1, kSide - 1); ++v)
      for (int64_t u = left; u <= std::min(left + 1, kSide - 1); ++u) {
        const double near =
            (1 - std::abs(column - static_cast<double>(u))) * (1 - std::abs(row - static_cast<double>(v)));
        maps[static_cast<size_t>((map * kSide + v) * kSide + u)] += static_cast<float>(score * near);
      }
  }

  Decoder decoder_;
  std::vector<std::string> outputs_;
};

}  // namespace

std::shared_ptr<const RowMaker> make_box_rows(const std::string& detector, std::vector<std::string> outputs) {
  if (detector.empty()) return nullptr;
  Decoder decoder = parse_decoder(detector, "the outputs");
  if (decoder.decode != BoxDecode::kFound) return nullptr;
  return std::make_shared<BoxRows>(std::move(decoder), std::move(outputs));
}

}  // namespace seqto::internal
