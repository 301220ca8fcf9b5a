#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto {
namespace {

using namespace internal;

struct Individual {
  Assignment plan;
  Point point;  // loss and cost
  size_t rank = 0;
  double crowding = 0;
};

class Nsga2 : public Replay {
 public:
  using Replay::Replay;

 private:
  static constexpr size_t kPopulation = 24;

  void search() override {
    std::mt19937_64 engine(options_.seed);
    const size_t size = std::min<size_t>(kPopulation, static_cast<size_t>(std::max<int64_t>(2, budget() / 2)));
    require_limit(size);
    std::vector<Individual> population = measured(random_plans(assignments_, size, options_.seed));
    rank(population);
    while (left() > 0) {
      std::vector<Assignment> children;
      const auto count = std::min<size_t>(size, static_cast<size_t>(left()));
      while (children.size() < count) {
        const Individual &a = tournament(population, engine), &b = tournament(population, engine);
        children.push_back(child(a.plan, b.plan, engine));
      }
      const int64_t before = left();
      for (Individual& individual : measured(children)) population.push_back(std::move(individual));
      survive(population, size);
      if (left() == before) return;  // the population repeats itself
    }
  }

  std::vector<Individual> measured(const std::vector<Assignment>& plans) {
    const std::vector<double> found = losses(plans);
    std::vector<Individual> result;
    for (size_t i = 0; i < plans.size(); ++i) result.push_back({plans[i], {found[i], cost(plans[i])}});
    return result;
  }

  static const Individual& tournament(const std::vector<Individual>& population, std::mt19937_64& engine) {
    const Individual &a = population[below(population.size(), engine)],
                     &b = population[below(population.size(), engine)];
    if (a.rank != b.rank) return a.rank < b.rank ? a : b;
    return a.crowding >= b.crowding ? a : b;
  }

  Assignment child(const Assignment& a, const Assignment& b, std::mt19937_64& engine) const {
    Assignment plan;
    for (size_t g = 0; g < a.size(); ++g) {
      plan.push_back(below(2, engine) ? a[g] : b[g]);
      if (below(a.size(), engine) == 0) plan[g] = static_cast<int>(below(assignments_.choices(g), engine));
    }
    return plan;
  }

  // Fronts one after the other, each with its crowding distances.
  static void rank(std::vector<Individual>& population) {
    std::vector<size_t> rest(population.size());
    std::iota(rest.begin(), rest.end(), 0);
    for (size_t rank = 0; !rest.empty(); ++rank) {
      std::vector<Point> points;
      for (size_t i : rest) points.push_back(population[i].point);
      std::vector<size_t> front;
      for (size_t i : pareto_front(points)) front.push_back(rest[i]);
      for (size_t i : front) {
        population[i].rank = rank;
        std::erase(rest, i);
      }
      crowd(population, std::move(front));
    }
  }

  static void crowd(std::vector<Individual>& population, std::vector<size_t> front) {
    for (size_t i : front) population[i].crowding = 0;
    for (size_t axis = 0; axis < 2; ++axis) {
      std::ranges::stable_sort(front, {}, [&](size_t i) { return population[i].point[axis]; });
      const double low = population[front.front()].point[axis], high = population[front.back()].point[axis];
      population[front.front()].crowding = population[front.back()].crowding = std::numeric_limits<double>::infinity();
      for (size_t k = 1; high > low && std::isfinite(high - low) && k + 1 < front.size(); ++k)
        population[front[k]].crowding +=
            (population[front[k + 1]].point[axis] - population[front[k - 1]].point[axis]) / (high - low);
    }
  }

  static void survive(std::vector<Individual>& population, size_t size) {
    rank(population);
    std::ranges::stable_sort(population, [](const Individual& a, const Individual& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.crowding > b.crowding;
    });
    population.resize(size);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_nsga2(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Nsga2>(space, options);
}

}  // namespace seqto
