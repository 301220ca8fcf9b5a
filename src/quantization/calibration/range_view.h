// Room: quantization/calibration. The ranges of a calibration as one candidate sees them.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/graph_view.h"
#include "seqto/calibrate.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// A candidate's view of the ranges: those of the calibration, adjusted for the nodes that it quantizes.
class RangeView {
 public:
  RangeView(const Model& model, const GraphView& index, const Ranges& ranges, const std::vector<bool>& selected,
            const QuantizeOptions& options);
  const Range* find(const std::string& tensor) const;
  // Whether the calibration itself has one.
  bool was_calibrated(const std::string& tensor) const { return ranges_.contains(tensor); }
  // The tensor's range, `times` as wide, but no wider than what can come out of a Relu, Clip or Softmax.
  Range widened(const std::string& tensor, double times) const;
  // Whether it has one range with other tensors, which one operator reads (equal_input_op_types).
  bool is_joined(const std::string& tensor) const { return joined_.contains(tensor); }
  // Relus and Clips whose input keeps its range, since a body or the graph's caller reads it too.
  const std::vector<LayerId>& kept() const { return kept_; }

 private:
  void unify_concat(const Model& model, const GraphView& index, const std::vector<bool>& selected);
  void equal_inputs(const Model& model, const GraphView& index, const std::vector<bool>& selected,
                    const QuantizeOptions& options);

  const Ranges& ranges_;
  std::unordered_map<std::string, Range> adjusted_;
  std::unordered_map<std::string, std::pair<double, double>> bounds_;
  std::unordered_set<std::string> joined_;
  std::vector<LayerId> kept_;
};

}  // namespace seqto::internal
