// The dynamic program's rival: the same plans by an integer program and its solver, where CBC is installed
// (Debian: coinor-libcbc-dev).
#pragma once

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"

namespace seqto::internal {

struct DeleteProgram {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};

// The plan of least loss that saves at least `share` of what can be saved: a column for each choice, a row for each
// group, which takes one of them, and a row for what they save together. Nothing when the solver finds none.
inline std::optional<Assignment> solve(const ChoiceTable& loss, const ChoiceTable& saved, double share) {
  double most = 0, largest = 1e-30;
  for (const auto& row : saved) most += *std::ranges::max_element(row);
  for (const auto& row : loss)
    for (double value : row)
      if (std::isfinite(value)) largest = std::max(largest, value);
  std::vector<int> starts{0}, rows;
  std::vector<double> values, costs, high, row_low(loss.size(), 1), row_high(loss.size(), 1);
  for (size_t g = 0; g < loss.size(); ++g)
    for (size_t c = 0; c < loss[g].size(); ++c) {
      rows.insert(rows.end(), {static_cast<int>(g), static_cast<int>(loss.size())});
      values.insert(values.end(), {1, saved[g][c] / most});
      starts.push_back(static_cast<int>(rows.size()));
      // The solver's tolerances are absolute. What failed cannot be taken.
      costs.push_back(std::isfinite(loss[g][c]) ? loss[g][c] * 1e3 / largest : 0);
      high.push_back(std::isfinite(loss[g][c]) ? 1 : 0);
    }
  row_low.push_back(share);
  row_high.push_back(2);
  const int columns = static_cast<int>(costs.size());
  const std::vector<double> low(costs.size(), 0);
  const std::unique_ptr<Cbc_Model, DeleteProgram> model(Cbc_newModel());
  Cbc_loadProblem(model.get(), columns, static_cast<int>(row_low.size()), starts.data(), rows.data(), values.data(),
                  low.data(), high.data(), costs.data(), row_low.data(), row_high.data());
  for (int column = 0; column < columns; ++column) Cbc_setInteger(model.get(), column);
  Cbc_setParameter(model.get(), "log", "0");
  Cbc_setParameter(model.get(), "sec", "10");
  Cbc_solve(model.get());
  const double* solution = Cbc_getColSolution(model.get());
  if (!solution || Cbc_isProvenInfeasible(model.get())) return {};
  Assignment plan;
  for (const auto& row : loss) {
    plan.push_back(static_cast<int>(std::max_element(solution, solution + row.size()) - solution));
    solution += row.size();
  }
  return plan;
}

class Ilp : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    const ChoiceTable alone = one_in();
    if (plans_.empty()) {
      const auto count = std::max<int64_t>(2, left());
      for (int64_t i = 1; i <= count; ++i)
        if (auto plan = solve(alone, saved(), static_cast<double>(i) / static_cast<double>(count)))
          plans_.push_back(std::move(*plan));
    }
    losses(plans_);
  }

  std::vector<Assignment> plans_;  // solved once for the losses, which do not change
};

}  // namespace seqto::internal
