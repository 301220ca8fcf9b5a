// Room: quantization/encode. Which layers can have which scheme, whatever a plan gives them.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/graph_view.h"
#include "seqto/calibrate.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// Keeps references to what it is made of.
class EligibleLayers {
 public:
  EligibleLayers(const Model& model, const GraphView& view, const Ranges& ranges, const QuantizeOptions& options);

  // onnxruntime's gate: by name and op type.
  bool lists(const Node& n, Scheme scheme) const;
  bool can_have(size_t node, Scheme scheme) const;  // by its place
  // Those that static quantization lists and that stay float, with the ids that say why
  // (docs/reference/compatibility.md).
  const std::vector<std::pair<LayerId, const char*>>& left_float() const { return left_float_; }

 private:
  using Tensors = std::unordered_set<std::string>;

  bool is_named(const Node& n) const;
  Tensors half_concats() const;
  Tensors find_readout() const;
  Tensors find_free() const;
  Tensors find_computed() const;
  struct Left {
    Tensors half_concats, readout, free, computed;
  };
  const char* why_float(const Node& n, const Left& left) const;

  const Model& model_;
  const GraphView& view_;
  const Ranges& ranges_;
  const QuantizeOptions& options_;
  const std::unordered_set<LayerId> include_, exclude_;
  std::vector<bool> static_, stored_;  // by place: which it can be
  std::vector<std::pair<LayerId, const char*>> left_float_;
};

// uniform_plan() without options.exclude and without what stays in float whatever a plan gives it, as far as that can
// be told before ranges are known.
Plan eligible_plan(const Model& model, const QuantizeOptions& options, const DetailedScheme& scheme);

}  // namespace seqto::internal
