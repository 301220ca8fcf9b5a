// Room: metrics. Whether the runtime's optimizations leave what a model computes.
#pragma once

#include <optional>
#include <string>

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

// What the runtime makes of a model differs from the model as it is written, by more than rounding.
struct OptimizationFault {
  // Where that begins: the first node whose output, with the graph cut off behind it, differs so. Empty: only the whole
  // graph does.
  std::string node, op_type, tensor;
  std::string sample;  // that the outputs differ most on
  double error = 0;    // there: squared difference of an output over its squared values
};

// From this error on it is no rounding. Kernels for integers add up exactly what as written is added in float, and a
// code may become its neighbour by that: pictures of noise, to which deep networks answer by chance, come to 0.012 so.
inline constexpr double kBeyondRounding = 0.1;

// Runs the samples with the runtime's optimizations and without. Float outputs are compared, and codes; whole numbers
// of 32 and 64 bits (a first class, places) are not. Behind a TopK, a NonMaxSuppression or a NonZero, what those choose
// from is compared instead. Where there is a fault, some more models are loaded to find its
// place. Throws what Runner::load() and Session::run() throw.
std::optional<OptimizationFault> find_optimization_fault(const Model& model, const SampleRun& on);

// In words.
std::string to_text(const OptimizationFault& fault);

}  // namespace seqto
