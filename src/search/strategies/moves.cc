#include "search/strategies/moves.h"

#include <algorithm>
#include <cmath>

#include "search/strategies/loss_model.h"
#include "search/strategies/steps.h"

namespace seqto::internal {
namespace {

// Groups moved to other choices, and what that changes.
struct Move {
  Step to;
  double loss = 0, bytes = 0, time = 0;  // less is better

  bool meets(const Move& other) const {
    return std::ranges::any_of(to, [&](const auto& own) {
      return std::ranges::any_of(other.to, [&](const auto& theirs) { return own.first == theirs.first; });
    });
  }
};

struct Found {
  Assignment assignment;
  double gain;
};

// What a move is to lose less than: the front at its cost, or every plan within the bounds, wherever it is within them.
enum class Aim { kFront, kBounds };

class Neighbourhood {
 public:
  Neighbourhood(const Archive& archive, Assignments& assignments, const LossModel& losses, Aim aim)
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
    const auto list = [&](Move move) {
      if (move.loss < 0) better.push_back(move);
      if (move.bytes < 0 || move.time < 0) cheaper.push_back(std::move(move));
    };
    // Size and the losses of weights add up by groups; time, and the losses of activations, do not.
    for (Step& step : steps_from(assignments_, entry.assignment, archive_.by_latency() ? &tuning_ : nullptr))
      list(moved(entry, std::move(step)));
    const auto keep = [most = static_cast<size_t>(tuning_.considered)](std::vector<Move>& moves, const auto& worth) {
      std::ranges::stable_sort(moves, std::greater(), worth);
      if (moves.size() > most) moves.resize(most);
    };
    const double byte = 1 / std::max(1.0, entry.size), ns = 1 / std::max(1.0, entry.latency);
    const auto cost = [=](const Move& m) { return std::max(m.bytes * byte, m.time * ns); };
    keep(better, [=](const Move& m) { return -m.loss / std::max(1e-6, cost(m)); });
    keep(cheaper, [=](const Move& m) {
      return std::max(-m.bytes * byte, -m.time * ns) / std::max(1e-3 * entry.joint_loss(), m.loss);
    });
  }

  Move moved(const Entry& entry, Step to) {
    Move move{std::move(to)};
    const ChoiceTable& bytes = assignments_.bytes_saved();
    for (const auto& [g, c] : move.to) {
      const int now = entry.assignment[g];
      if (archive_.by_size()) move.bytes += bytes[g][now] - bytes[g][c];
      if (archive_.by_latency()) move.time += assignments_.time_saved()[g][now] - assignments_.time_saved()[g][c];
    }
    move.loss = losses_.change(entry.assignment, move.to);
    return move;
  }

  std::optional<Found> best_move(const Entry& entry) {
    std::vector<Move> better, cheaper;
    list_moves(entry, better, cheaper);
    const Move none;
    std::optional<Found> best;
    const auto consider = [&](const Move& a, const Move& b) {
      const double gain = gain_of(entry, a, b);
      if (gain <= (best ? best->gain : tuning_.least_gain)) return;
      Assignment assignment = after(after(entry.assignment, a.to), b.to);
      if (archive_.find(assignment) || assignment == assignments_.all_float()) return;
      best = Found{std::move(assignment), gain};
    };
    for (const Move& a : better) {
      consider(a, none);
      for (const Move& b : cheaper)
        if (!a.meets(b)) consider(a, b);
    }
    for (const Move& b : cheaper) consider(b, none);
    return best;
  }

  // Logarithm of the front's loss at that cost over the one hoped for; losses that are next to nothing are equal.
  double gain_of(const Entry& entry, const Move& a, const Move& b) const {
    const double joint = entry.joint_loss();
    const double hoped = joint + a.loss + b.loss - tuning_.hope * (std::abs(a.loss) + std::abs(b.loss));
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
    return std::log(std::max(reference, nothing_) / std::max({hoped, tuning_.believed * joint, nothing_}));
  }

  const Archive& archive_;
  const SearchTuning& tuning_ = archive_.tuning();
  const Aim aim_;
  Assignments& assignments_;
  const LossModel& losses_;
  std::vector<const Entry*> front_;
  double nothing_;
};

}  // namespace

std::vector<Assignment> promising_moves(const Archive& archive, Assignments& assignments, const LossModel& losses,
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
