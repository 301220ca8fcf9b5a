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
// At most `positions` of the layer's output positions, evenly spaced; `offset` shifts them. `weight_dims` of a Conv.
LayerRows layer_rows(const Node& node, const std::vector<int64_t>& weight_dims, const Tensor& input,
                     const Tensor& output, int64_t positions, uint64_t offset);

}  // namespace seqto::internal
