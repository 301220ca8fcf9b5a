// Room: quantization/read. A graph with its pairs where a runtime's optimizer has them when it looks for layers on
// codes: moved, merged, left out. Which of that a target does, its table says.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "quantization/read/pair_graph.h"
#include "seqto/target.h"

namespace seqto::internal {

class SettledPairs : public PairGraph {
 public:
  SettledPairs(const Model& model, const Target& target);

  // What the optimizer does once layers were found: `fused` names their pairs' nodes. False: nothing changed.
  bool go_on(const std::unordered_set<std::string>& fused);
  // Whether it is a Clip of an input that the QuantizeLinear behind it repeats.
  bool is_repeated_clip_of_input(const std::string& node) const { return clips_of_inputs_.contains(node); }

 private:
  const TargetRule* rule(const Node& node) const;
  bool propagates(const Node& node) const;

  bool settle();
  bool make_unique();
  bool drop_identities();
  bool join_doubles();
  bool merge_equal();
  std::string value_key(const std::string& tensor) const;
  bool fold();
  bool is_foldable(const Node& node) const;
  std::optional<Tensor> value_of(const Node& node) const;
  bool propagate();
  bool propagate_backward(const Node& quantize);
  bool propagate_forward(const Node& dequantize);
  void insert(const std::string& tensor, const std::vector<Use>& uses, const Node& like, bool forward);
  bool insert_before_output(Node& mover, const Node& like);
  void quantize_constants();
  void quantize_constants(Node& node);
  void pair_scalars();
  void drop_clips();
  std::optional<std::pair<double, double>> bounds_of(const Node& clip) const;
  bool make_unsigned();
  bool serves_one(const std::string& codes) const;
  bool drop_undone(const std::unordered_set<std::string>& fused);

  const Target& target_;
  std::unordered_map<std::string, std::vector<const TargetRule*>> rules_;
  std::unordered_set<std::string> clips_of_inputs_;
};

}  // namespace seqto::internal
