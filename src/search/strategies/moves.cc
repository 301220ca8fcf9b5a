#include "search/strategies/moves.h"

#include <algorithm>
#include <cmath>

#include "search/strategies/loss_model.h"

namespace seqto::internal {
namespace {

// A group moved to another choice, and what that changes.
struct Move {
  size_t group = 0;
  int choice = 0;
  double loss = 0, bytes = 0, time = 0;  // less is better
};

struct Found {
  Assignment assignment;
  double gain;
};

// What a move is to lose less than: the front at its cost, or every plan within the bounds, wherever it is within them.
enum class Aim { kFront, kBounds };

class Neighbourhood {
 public:
  Neighbourhood(const Archive& archive, Assignments& assignments, const ChoiceTable& losses, Aim aim)
      : archive_(archive),
        aim_(aim),
        assignments_(assignments),
        losses_(losses),
        front_(archive.front()),
        nothing_(std::max(1e-12, negligible_loss(archive, assignments))) {}

  std::vector<Found> best_of_each() {
    std::vector<Found> found;
    for (const Entry* entry : front_)
      if (std::optional<Found> best = best_move(*entry)) found.push_back(std::move(*best));
    return found;
  }

 private:
  // The most worthwhile moves from the entry: those that lose less, and those that cost less.
  void list_moves(const Entry& entry, std::vector<Move>& better, std::vector<Move>& cheaper) {
    for (size_t g = 0; g < assignments_.groups(); ++g)
      for (int c = 0; c < static_cast<int>(assignments_.choices(g)); ++c) {
        if (c == entry.assignment[g]) continue;
        const Move move = moved(entry, g, c);
        if (move.loss < 0) better.push_back(move);
        if (move.bytes < 0 || move.time < 0) cheaper.push_back(move);
      }
    const auto keep = [](std::vector<Move>& moves, const auto& worth) {
      constexpr size_t kMost = 16;  // of each kind; their pairs are looked at
      std::ranges::stable_sort(moves, std::greater(), worth);
      if (moves.size() > kMost) moves.resize(kMost);
    };
    const double byte = 1 / std::max(1.0, entry.size), ns = 1 / std::max(1.0, entry.latency);
    const auto cost = [=](const Move& m) { return std::max(m.bytes * byte, m.time * ns); };
    keep(better, [=](const Move& m) { return -m.loss / std::max(1e-6, cost(m)); });
    keep(cheaper, [=](const Move& m) {
      return std::max(-m.bytes * byte, -m.time * ns) / std::max(1e-3 * entry.joint_loss(), m.loss);
    });
  }

  Move moved(const Entry& entry, size_t group, int choice) {
    const auto change = [&](const ChoiceTable& table) {
      return table[group][static_cast<size_t>(choice)] - table[group][static_cast<size_t>(entry.assignment[group])];
    };
    return {group, choice, change(losses_), archive_.by_size() ? -change(assignments_.bytes_saved()) : 0,
            archive_.by_latency() ? -change(assignments_.time_saved()) : 0};
  }

  std::optional<Found> best_move(const Entry& entry) {
    std::vector<Move> better, cheaper;
    list_moves(entry, better, cheaper);
    std::optional<Found> best;
    const auto consider = [&](const Move* a, const Move* b) {
      const Move none, &first = a ? *a : none, &second = b ? *b : none;
      const double gain = gain_of(entry, first, second);
      if (gain <= (best ? best->gain : 0)) return;
      Assignment assignment = entry.assignment;
      for (const Move* move : {a, b})
        if (move) assignment[move->group] = move->choice;
      if (archive_.find(assignment) || assignment == assignments_.all_float()) return;
      best = Found{std::move(assignment), gain};
    };
    for (const Move& a : better) {
      consider(&a, nullptr);
      for (const Move& b : cheaper)
        if (a.group != b.group) consider(&a, &b);
    }
    for (const Move& b : cheaper) consider(nullptr, &b);
    return best;
  }

  // Logarithm of the front's loss at that cost over the one expected; losses that are next to nothing are equal.
  double gain_of(const Entry& entry, const Move& a, const Move& b) const {
    const double expected = entry.joint_loss() + a.loss + b.loss;
    const double size = entry.size + a.bytes + b.bytes, latency = entry.latency + a.time + b.time;
    if (aim_ == Aim::kBounds && !archive_.is_within(size, latency)) return 0;
    const auto is_rival = [&](const Entry& other) {
      if (aim_ == Aim::kBounds) return archive_.is_within(other.size, other.latency);
      return !(archive_.by_size() && other.size > size) && !(archive_.by_latency() && other.latency > latency);
    };
    double reference = std::numeric_limits<double>::infinity();
    for (const Entry* other : front_)
      if (is_rival(*other)) reference = std::min(reference, other->joint_loss());
    if (!std::isfinite(reference)) return 0;  // cheaper than all there is: the chain's end says what that costs
    return std::log(std::max(reference, nothing_) / std::max(expected, nothing_));
  }

  const Archive& archive_;
  const Aim aim_;
  Assignments& assignments_;
  const ChoiceTable& losses_;
  std::vector<const Entry*> front_;
  double nothing_;
};

}  // namespace

std::vector<Assignment> promising_moves(const Archive& archive, Assignments& assignments, const ChoiceTable& losses,
                                        size_t count) {
  std::vector<Assignment> result;
  const auto add = [&](Aim aim, size_t most) {
    std::vector<Found> found = Neighbourhood(archive, assignments, losses, aim).best_of_each();
    std::ranges::stable_sort(found, std::greater(), &Found::gain);
    for (Found& f : found) {
      if (result.size() >= most) break;
      if (std::ranges::find(result, f.assignment) == result.end()) result.push_back(std::move(f.assignment));
    }
  };
  if (archive.bounded()) add(Aim::kBounds, (count + 1) / 2);
  add(Aim::kFront, count);
  return result;
}

}  // namespace seqto::internal
