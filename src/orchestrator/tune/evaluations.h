// Room: orchestrator/tune. Where the candidates of proposals are made and measured: here, or elsewhere.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "orchestrator/tune/references.h"
#include "seqto/search.h"

namespace seqto::internal {

class Evaluations {
 public:
  virtual ~Evaluations() = default;
  // Side by side. `done` gets the trials in the order of the proposals, on this thread; what it throws ends the rest.
  // False: they will be told at another time. Once `over`, none that others measure is waited for any more.
  virtual bool measure(std::span<const Proposal> proposals, const std::function<void(Trial)>& done,
                       const std::function<bool()>& over) = 0;
};

// In this process, or on the devices that it drives.
class LocalEvaluations : public Evaluations {
 public:
  // All of it outlives this.
  struct Context {
    References& references;
    const Env& env;
    const Prefixes* prefixes = nullptr;          // null: candidates run from the inputs on
    const Target* target = nullptr;              // null: any file will do
    size_t jobs = 1;                             // candidates side by side
    std::function<Model(const Plan&)> reported;  // of a plan for the report; empty: as all others
    // The published search has no trial of a candidate that equals the one before; first that of this plan.
    std::optional<Plan> before;
  };
  explicit LocalEvaluations(Context context);

  bool measure(std::span<const Proposal> proposals, const std::function<void(Trial)>& done,
               const std::function<bool()>& over = {}) override;

 private:
  std::optional<Model> made(const Proposal& proposal);  // nothing where it is skipped

  Context c_;
  std::mutex making_;
  std::optional<Model> last_;
};

// What candidates share with the float model on the search samples; nothing where there are none, or states are carried
// from one to the next.
std::optional<Prefixes> search_prefixes(const Inputs& inputs, const References& references);

}  // namespace seqto::internal
