// Room: quantization/calibration. A model run again and again up to tensors that lie deeper each time, as its layers
// are finished one after the other: what is finished is not computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

// Tensors through which everything passes that `open` nodes, and what depends on them, read of the rest of the graph:
// float32 ones, and the codes of QuantizeLinear. Inputs of the model and constants are none. In graph order.
struct BorderTensor {
  std::string name;
  DataType type = DataType::kFloat;
};
std::vector<BorderTensor> border_of(const Model& model, const std::unordered_set<LayerId>& open);

class Frontier {
 public:
  static constexpr int64_t kBytes = 192 << 20;
  // Keeps the values at one border of as many samples, where they are at most so many bytes in all, by the first of
  // them.
  Frontier(Runner& runner, size_t samples, int64_t bytes = kBytes);

  // run() gives `tensors` of this model from now on, no inputs of the model among them. `open`: the nodes that may be
  // others in the next call, fewer each time; all else is the same. None of `tensors` may depend on an open node that
  // will be another.
  void advance(const Model& model, const std::vector<std::string>& tensors, const std::unordered_set<LayerId>& open);
  // `inputs` as Dataset::read() gives them. Every sample once, in order, after each advance().
  std::vector<Tensor> run(size_t sample, const std::vector<Tensor>& inputs);

 private:
  using Values = std::unordered_map<std::string, Tensor>;

  // The part of model_ from what is kept to `outputs`.
  std::unique_ptr<Session> load(const std::vector<BorderTensor>& outputs) const;
  void keep(size_t sample, const std::vector<Tensor>& outputs);

  Runner& runner_;
  int64_t bytes_;
  Model model_;
  std::vector<BorderTensor> computed_;       // what the session gives, the first of them for run()
  std::vector<std::string> tensors_;         // of run()
  size_t asked_ = 0;                         // so many of computed_ are for run()
  std::vector<BorderTensor> kept_, border_;  // now, and to be kept; border_ empty: to stay with kept_
  std::vector<Values> values_;               // of kept_, a sample each
  std::vector<Values> next_;                 // of border_
  std::unique_ptr<Session> session_;
};

}  // namespace seqto::internal
