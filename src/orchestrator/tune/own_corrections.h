// Room: orchestrator/tune. Codes and biases of a single plan.
//
// What is learned for a scheme is learned with every layer in it (improvements.h): each layer makes up for the errors
// of those before it. In a plan that mixes schemes those errors are others. Plans that are reported get biases
// corrected in the plan itself; those that are worth the time, codes that are learned anew in it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "orchestrator/study/notes.h"
#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/workbench.h"
#include "seqto/improve.h"

namespace seqto::internal {

class OwnCorrections {
 public:
  // All of it outlives this. `corrections`: those that all plans share; `judge`: its acceptance samples say by `loss`
  // whether a plan takes its own.
  struct Context {
    Workbench bench;
    Quantizer& quantizer;
    const SchemeCorrections& corrections;
    const Place& judge;
    std::string loss;
    // Which plans' codes are to be learned anew, where those of static layers were learned at all. Empty: none.
    std::function<bool(const Plan&, const Model& candidate)> worth_learning;
  };
  explicit OwnCorrections(Context context) : c_(std::move(context)) {}

  // The plan's candidate as it is reported: as it was, with own biases or with own codes, whichever loses least on the
  // acceptance samples. Found once for a plan, and kept in the study: its note, and own_corrections/<id>.npz in its
  // folder. Unchanged: where no static layer was corrected; plans of one scheme; QOperator form, which has no outputs
  // in float to look at; short runs. Layers whose fields refuse corrections keep theirs.
  Model corrected(const Plan& plan);
  // The same, where that was found before.
  Model as_found(const Plan& plan) const;
  // All that the candidate of as_found() is made with.
  std::vector<Corrections> found(const Plan& plan) const;
  // Where these corrections are; empty for a plan that takes none of its own.
  std::filesystem::path file_of(const Plan& plan) const;

 private:
  OwnCorrection taken(const Plan& plan) const;
  std::string id_of(const Plan& plan) const;  // the candidate's
  bool serves(const Plan& plan) const;
  // The plan's candidate, its own corrections put in behind those that all share.
  Model candidate(const Plan& plan, const SchemeCorrections& own = {}) const;
  bool learns(const Plan& plan, const Model& candidate) const;
  SchemeCorrections find_biases(const Plan& plan) const;
  SchemeCorrections find_codes(const Plan& plan) const;
  void save(const Plan& plan, const SchemeCorrections& found) const;
  double loss(const Model& candidate) const;
  std::filesystem::path file(const Plan& plan) const;

  Context c_;
};

}  // namespace seqto::internal
