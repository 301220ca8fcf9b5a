// Room: quantization/calibration. A layer as a matrix product: which inputs belong to which outputs.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "seqto/model.h"

namespace seqto::internal {

// One column for each position taken: what the weights of a group's output are multiplied with, group under group,
// and the layer's outputs there.
struct LayerRows {
  Eigen::MatrixXf inputs, outputs;
};
// Which of a layer's output positions are taken: so many at most, evenly spaced; `offset` shifts them.
struct Positions {
  int64_t most = 0;
  uint64_t offset = 0;
};
// `weight_dims` of a Conv.
LayerRows layer_rows(const Node& node, const std::vector<int64_t>& weight_dims, const Tensor& input,
                     const Tensor& output, Positions positions);

}  // namespace seqto::internal
