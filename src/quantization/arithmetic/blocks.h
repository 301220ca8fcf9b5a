// Room: quantization/arithmetic. Weights cut into groups that share a scale, also where the cut does not come out even.
#pragma once

#include <vector>

#include "quantization/plan/weight_sites.h"

namespace seqto::internal {

// How a weight's elements are cut: `blocks` is its shape once padded with zeros, one scale for each pair of outer and
// channel of it.
struct Cut {
  Grouping whole;   // of the weight
  Grouping padded;  // the same, `before` or `after` enlarged to a multiple of the block
  Grouping blocks;  // of the padded weight
  bool is_padded() const { return padded != whole; }
};
// Blocks of at most `block_size` elements along what the layer sums over, as few as that takes and all of one length,
// so that little is padded; 0: the whole channel.
Cut cut_into_blocks(const Grouping& whole, int64_t block_size);

// The weight as [outer, before, channels, after] of cut.padded, zeros added at the end of before or after.
Tensor pad(const Tensor& weight, const Cut& cut);

// Shape of the scales that broadcasts against a weight of shape `dims`; nothing where a group does not follow dims.
std::optional<std::vector<int64_t>> scale_dims(const std::vector<int64_t>& dims, const Grouping& grouping);

}  // namespace seqto::internal
