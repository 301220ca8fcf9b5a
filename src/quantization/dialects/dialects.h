// Room: quantization/dialects. What the dialects share: names against a model, exclusions and plans, both ways.
#pragma once

#include <set>
#include <string>
#include <vector>
#include "base/json.h"

#include "seqto/dialects.h"

namespace seqto::internal {

// Layers that a tool wants in float, collected from its lists.
class Exclusions {
 public:
  explicit Exclusions(const Model& model);

  // A name, a pattern or a type that matches nothing is an error, or a note where the tool does not mind.
  enum class Unmatched { kError, kNote };
  void name(const std::string& name, Unmatched unmatched);
  // `anchored`: from the name's start, as Python's re.match.
  void pattern(const std::string& pattern, bool anchored, Unmatched unmatched);
  void op_type(const std::string& type, Unmatched unmatched);
  // All nodes on paths from one of `starts` to one of `ends`, these included.
  void between(const std::vector<std::string>& starts, const std::vector<std::string>& ends, Unmatched unmatched);

  // int8 wherever it can be written and is not excluded.
  ForeignPlan plan() const;
  ForeignPlan result;  // its notes and encodings; plan() puts the plan to them

 private:
  void missing(const char* kind, const std::string& text, Unmatched unmatched, const std::vector<std::string>& known);
  std::set<size_t> reached(const std::set<size_t>& from, bool forwards) const;

  const Model& model_;
  std::vector<std::string> names_, types_;
  std::set<LayerId> excluded_;
};

// The layers that could be int8 and are not, in graph order; a note for schemes that an exclusion cannot say.
std::vector<LayerId> excluded_layers(const ForeignPlan& plan, const Model& model, std::vector<std::string>& notes);

// A list of strings. Throws nlohmann's exceptions, which the callers turn into Errors.
std::vector<std::string> strings(const nlohmann::json& list);

ForeignPlan read_onnxruntime(const nlohmann::json& file, const Model& model);
ForeignPlan read_nncf(const nlohmann::json& file, const Model& model);
ForeignPlan read_quark(const nlohmann::json& file, const Model& model);
ForeignPlan read_tensorrt(const std::string& text, const Model& model);
ForeignPlan read_aimet(const nlohmann::json& file, const Model& model);

PlanText write_onnxruntime(const ForeignPlan& plan, const Model& model);
PlanText write_nncf(const ForeignPlan& plan, const Model& model);
PlanText write_quark(const ForeignPlan& plan, const Model& model);
PlanText write_tensorrt(const ForeignPlan& plan, const Model& model);
PlanText write_aimet(const ForeignPlan& plan, const Model& model);

}  // namespace seqto::internal
