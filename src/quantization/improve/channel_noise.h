// Room: quantization/improve. What 8 bits lose where channels share a scale, and the factors for the channels under
// which that is least.
#pragma once

#include <cstddef>
#include <vector>

namespace seqto::internal {

// Tensors and weights whose channels are divided and multiplied by the same factors: ChannelGroup's slots. Entries are
// by channel; a slot may be ChannelGroup::kNoSlot.
struct ChannelNoise {
  // A tensor that is rounded with one scale, or a weight with one scale that writes such a tensor.
  struct Activation {
    std::vector<size_t> slots;
    std::vector<double> reach;    // the largest magnitude to be expected; of a weight, its rows'
    std::vector<double> squares;  // of the tensor, their mean
    double levels = 255;          // of a weight 127
    double terms = 1;             // of a weight, the sum of the mean squares of what a row reads
  };
  // A weight that reads such a tensor.
  struct Reader {
    std::vector<size_t> slots;
    std::vector<double> squares;   // of what it reads, their mean
    std::vector<double> energies;  // of its columns: the sum of the weights' squares
    // The largest magnitudes of each row with a scale of its own, by column. Empty where every column has one.
    std::vector<std::vector<double>> rows;
    double values = 1;  // that such a row stands for in each column
  };

  size_t slots = 0;
  std::vector<Activation> activations;
  std::vector<Reader> readers;
  std::vector<double> least;  // of the factors, by slot, up to 1, which none may exceed. Empty: they are free
};

// The factors that activations are divided by and columns multiplied, one for each slot. Free ones are of geometric
// mean 1: a factor for all of them changes nothing. They lessen the sum, over activations and readers, of the mean
// square of rounding's noise at what the readers write, relative to the signal: with factors f and gains g, the
// columns' shares of their weights' energies,
//   an activation:      s^2 terms sum(g f^2) / sum(g squares),                s = max(reach / f) / levels
//   a row of a reader:  s^2 values sum(squares / f^2) / sum(squares energies),   s = max(row f) / 127
// A fixed number of steps of gradient descent, with a smooth maximum. Deterministic.
std::vector<double> quietest_factors(const ChannelNoise& noise);

}  // namespace seqto::internal
