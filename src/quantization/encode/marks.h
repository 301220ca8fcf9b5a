// Room: quantization/encode. Which tensors get Q/DQ: the rules of each op, applied node by node in graph order.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/calibration/clip_bounds.h"
#include "quantization/encode/encoding.h"
#include "seqto/quantize.h"

namespace seqto::internal {

struct Mark {
  bool weight = false;          // weight type, else activation type
  std::optional<int64_t> axis;  // per channel
  std::string provider;         // not empty: same parameters as this tensor ...
  LayerId provider_node;        // ... has for this reader
  bool whole = false;           // per tensor whatever an override's axis says
  bool blocked = false;         // QuantizeOptions::block_size applies
};

struct BiasMark {
  std::string bias;  // initializer to quantize
  size_t node = 0;
  std::string input, weight;
  int64_t columns = 0;   // not 0: a single value is spread to so many first
  float multiplier = 1;  // onnxruntime's: of the scale, where it drops a Gemm's beta
};

// Insertion order is kept; overwriting keeps the place, as a Python dict does.
class MarkMap {
 public:
  Mark* find(const std::string& name);
  bool contains(const std::string& name) const { return index_.contains(name); }
  void set(const std::string& name, Mark mark);
  void erase(const std::string& name);
  template <class F>
  void for_each(F f) {
    for (auto& e : entries_)
      if (e.alive) f(e.name, e.mark);
  }

 private:
  struct Entry {
    std::string name;
    Mark mark;
    bool alive = true;
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

struct Marks : Deviations {
  std::vector<Node> nodes;    // the graph's nodes with the edges that marking changed
  std::vector<bool> removed;  // Relu/Clip made superfluous
  MarkMap tensors;
  std::vector<BiasMark> biases;
  std::vector<Initializer> new_initializers;                       // copies of biases
  std::unordered_map<std::string, float> beta;                     // bias -> factor to fold into it
  std::unordered_map<std::string, std::vector<size_t>> receivers;  // marked nodes that read a tensor, once an edge
};

using BoundsOf = std::function<std::optional<RealBounds>(const std::string& tensor)>;

// True when the runtime may compute on the integers of both: what is odd about the parameters then matters.
bool fuses_8_bits(const QuantizeOptions& options, const std::string& activation, const std::string& weight);

// True when the runtime can take scales by channel of a constant left operand of MatMul.
bool left_operand_runs(const QuantizeOptions& options, const std::string& weight, const std::string& activation);

// After all marks are there: which weights are blocked, and which cannot have the axis that was asked for.
void settle_weights(Marks& marks, const GraphView& index, const std::vector<bool>& selected,
                    const QuantizeOptions& options);

// `selected[i]`: node i is to be quantized.
Marks mark_tensors(const Model& model, const GraphView& index, const std::vector<bool>& selected,
                   const QuantizeOptions& options, const BoundsOf& bounds);

}  // namespace seqto::internal
