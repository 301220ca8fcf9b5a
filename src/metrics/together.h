// Room: metrics. Samples computed together: filled up, stacked, and each sample's own part of what comes out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// A sample as it is computed alone.
struct Alone {
  std::string name;
  std::vector<Tensor> inputs;  // of its own length
  int64_t positions = 0;       // 0: it is no sequence that a mask belongs to
  std::vector<Tensor> outputs;
};

enum class Fill { kBehind, kInFront };

// How samples are computed in one run.
struct Together {
  std::vector<const Alone*> samples;
  int64_t positions = 0;  // that each sequence is filled up to with zeros, which the mask hides
  Fill fill = Fill::kBehind;
};

// One sequence, [1, positions].
bool is_sequence(const Tensor& t, int64_t positions);
// Positions [begin, end) of a sequence; 0 where it has none.
Tensor sequence_part(const Tensor& sequence, int64_t begin, int64_t end);

std::vector<Tensor> stacked_inputs(const Together& run);
// The part of a tensor of the run that belongs to the sample at `place`: its rows of the first axis, of the other axes
// as much as `alone`, the same tensor of the sample alone, has. Nothing where the samples are not along the first axis.
std::optional<Tensor> own_part(const Tensor& together, const Tensor& alone, const Together& run, size_t place);

struct Difference {
  double max_abs = 0,
         largest_abs = 0;  // the largest of the finite values alone; max_abs is no number where a value is none
  double cosine = 0;
};
// Nothing where both have the same bits.
std::optional<Difference> difference_of(const Tensor& alone, const Tensor& together);

}  // namespace seqto::internal
