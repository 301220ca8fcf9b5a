#include "search/strategies/finalists.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "search/front/scaled.h"

namespace seqto::internal {
namespace {

// `value` is what is minimised beside the costs.
template <class Value>
void thin_out(std::vector<const Entry*>& front, const Archive& archive, size_t count, Value value) {
  if (front.size() <= count) return;
  std::vector<Point> points;
  for (const Entry* entry : front) points.push_back(archive.point(*entry, value(*entry)));
  points = scaled(points);
  const Point reference(points[0].size(), 110);
  while (front.size() > count) {
    const double whole = hypervolume(points, reference);
    size_t least = 0;
    double loss = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < points.size(); ++i) {
      if (std::ranges::find(points[i], 0.0) != points[i].end()) continue;  // an end of an objective
      std::vector<Point> others = points;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      if (const double own = whole - hypervolume(others, reference); own < loss) loss = own, least = i;
    }
    if (!std::isfinite(loss)) break;  // ends alone are left
    points.erase(points.begin() + static_cast<ptrdiff_t>(least));
    front.erase(front.begin() + static_cast<ptrdiff_t>(least));
  }
}

}  // namespace

std::vector<const Entry*> finalists(const Archive& archive, size_t count) {
  std::vector<const Entry*> front = archive.front(), judged = archive.metric_front();
  for (auto* list : {&front, &judged})  // the float model itself is in every report
    std::erase_if(*list, [](const Entry* entry) {
      return std::ranges::all_of(entry->assignment, [](int choice) { return choice == 0; });
    });
  thin_out(judged, archive, count / 3, [](const Entry& e) { return *e.metric; });
  // What the bounds ask for is not left to how well it spans the front; a part with room, since latencies are
  // predicted.
  std::vector<const Entry*> wanted;
  if (archive.bounded()) {
    std::vector<const Entry*> by_loss = front;
    std::ranges::stable_sort(by_loss, {}, [](const Entry* e) { return e->joint_loss(); });
    const auto take = [&](size_t most, double share) {
      for (const Entry* entry : by_loss)
        if (most > 0 && archive.is_within(entry->size, entry->latency, share) &&
            std::ranges::find(wanted, entry) == wanted.end())
          wanted.push_back(entry), --most;
    };
    take(std::max<size_t>(1, count / 6), 1);
    take(count / 8, 0.95);
  }
  std::vector<const Entry*> kept = judged;
  std::ranges::copy_if(wanted, std::back_inserter(kept),
                       [&](const Entry* entry) { return std::ranges::find(judged, entry) == judged.end(); });
  // They stay, whatever they add to the front of losses.
  std::erase_if(front, [&](const Entry* entry) { return std::ranges::find(kept, entry) != kept.end(); });
  thin_out(front, archive, count - std::min(count, kept.size()),
           [](const Entry& e) { return std::log(std::max(e.joint_loss(), 1e-9)); });
  front.insert(front.end(), kept.begin(), kept.end());
  return front;
}

std::vector<Proposal> finalists_to_measure(const Archive& archive, const Assignments& assignments, int64_t count) {
  std::vector<Proposal> proposals;
  for (const Entry* entry : finalists(archive, static_cast<size_t>(count)))
    if (!entry->evaluation) proposals.push_back({assignments.plan(entry->assignment), {}, Part::kEvaluation, "search"});
  return proposals;
}

}  // namespace seqto::internal
