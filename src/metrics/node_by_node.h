// Room: metrics. A model run node by node, each in a session of its own: every tensor has the type that the graph says.
// Runtimes fuse nodes, and on a CPU leave out casts to float16, so that what a device would lose is not seen there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

class NodeByNode : public Session {
 public:
  // `seen`: each node with its outputs, as they are made.
  using Seen = std::function<void(const Node& node, std::span<const Tensor> outputs)>;
  // The node's only output in the runtime's place, from what it reads that is no constant; nothing: the runtime runs
  // it.
  using Compute = std::function<std::optional<Tensor>(const Node& node, std::span<const Tensor> reads)>;
  // `model` and `runner` outlive it. Nodes are in topological order. run() throws what load() throws, too.
  NodeByNode(const Model& model, Runner& runner, Seen seen = {}, Compute compute = {});

  std::vector<Tensor> run(std::span<const Tensor> inputs) override;
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  struct Step {
    const Node* node = nullptr;
    std::vector<std::string> reads;  // tensors that are no constants, in the order of the session's inputs
    std::vector<const Initializer*> constants;
    std::vector<size_t> last_read;     // places in `reads` of what no later node reads
    std::unique_ptr<Session> session;  // made at its first run, when types are known
  };
  std::unique_ptr<Session> load(const Step& step, std::span<const Tensor> inputs) const;

  const Model& model_;
  Runner& runner_;
  Seen seen_;
  Compute compute_;
  std::vector<Step> steps_;
  std::vector<std::string> input_names_, output_names_;
};

// Where a value that is not finite comes from on these inputs: "the input 'x'", or "Log 'n', whose output 't' is the
// first"; empty: nowhere, or the sample has recurrent states. Runs node by node.
std::string first_not_finite(const Model& model, Runner& runner, std::span<const Tensor> inputs);
bool is_finite(const Tensor& tensor);  // true for what is no float

}  // namespace seqto::internal
