// Room: metrics. A model in QDQ form as a device computes it: node by node, sums and rounding as its table says.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "metrics/integer_layers.h"
#include "metrics/node_by_node.h"
#include "seqto/target.h"

namespace seqto::internal {

class DeviceArithmetic {
 public:
  // `model` and `runner` outlive it.
  DeviceArithmetic(const Model& model, Runner& runner, const Arithmetic& arithmetic);
  DeviceArithmetic(const DeviceArithmetic&) = delete;

  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // With sums as large as they get, which are counted nowhere.
  std::vector<Tensor> run_wide(std::span<const Tensor> inputs);
  // Conv, Gemm and MatMul on codes, in graph order, with what run() has counted.
  std::vector<AuditedLayer> layers() const;

 private:
  std::optional<Tensor> compute(const Node& node, std::span<const Tensor> reads);
  std::optional<Tensor> quantize(const Node& node, const Tensor& values) const;

  const Arithmetic arithmetic_;
  bool wide_ = false;  // run_wide() runs
  std::unordered_map<std::string, const Tensor*> constants_;
  std::vector<IntegerLayer> layers_;
  std::unordered_map<std::string, IntegerLayer*> by_sums_;
  NodeByNode steps_;
};

}  // namespace seqto::internal
