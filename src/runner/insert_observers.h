// Room: runner. A model that shows chosen tensors to an Observer while it runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

// Observe(x) -> x: shows its input, attribute `tensor`, and passes it on.
// ObserveClip(x) -> y: shows x, attribute `tensor` (-1: not), clips it to `lowest`, `highest` and shows y, attribute
// `clipped_tensor` (-1: not). ObserveClipInPlace writes over its input, which nothing else may read. Attributes
// `channels`, `block` of both: the layout is N, C/block, H, W, block with padded channels, which are not shown; 0:
// dense.
constexpr const char* kObserveDomain = "seqto";

// One of the model's inputs that is observed: seen before the run, no node is needed.
struct ObservedInput {
  size_t tensor = 0, input = 0;
};
// A tensor that is the same in every run.
struct ObservedConstant {
  size_t tensor = 0;
  Tensor value;
};

struct Instrumented {
  Model model;
  std::vector<ObservedInput> inputs;
  std::vector<ObservedConstant> constants;
};

// Puts an Observe right behind the producer of every named tensor; empty names are passed over. All readers and the
// graph's outputs keep the tensor's name, and none has to live longer than before. Constants stay as they are. A tensor
// that nothing in the main graph makes is left out.
Instrumented insert_observers(const Model& model, std::span<const std::string> tensors);

// --- models that the runtime has optimised ------------------------------------------------------
// Optimising would fuse observed tensors away. So they are made outputs first (preparation), the runtime optimises and
// writes down its graph, and there the outputs become observers again: its fast kernels and layouts stay.

struct Bounds {
  float lowest = 0, highest = 0;
};
struct Preparation {
  Model model;  // every tensor an output; Clip is Relu, since the runtime keeps its blocked layout over Relu only
  std::unordered_map<std::string, Bounds> activations;  // by node name: Relu and what was Clip
};
Preparation prepare_for_optimizing(const Model& model, std::span<const std::string> tensors);

// The runtime's blocked layout: channels in blocks, so many at a time, of nodes of this domain.
inline constexpr const char* kBlockedDomain = "com.microsoft.nchwc";
bool has_blocks(const Model& optimized);

// `block`: channels of a block, where there are any. Nothing when the runtime changed the graph in a way
// that is not understood here.
std::optional<Instrumented> observe_optimized(const Model& optimized, const Model& original,
                                              const Preparation& preparation, std::span<const std::string> tensors,
                                              int64_t block);

}  // namespace seqto::internal
