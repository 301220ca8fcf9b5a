// Room: search/strategies. The rows of make_strategy (search.h).
#pragma once

#include <memory>

#include "search/strategies/assignments.h"

namespace seqto {

std::unique_ptr<Strategy> make_chain(const SearchSpace& space, const StrategyOptions& options);
// The published procedure: exclude one more entry of the error analysis' order a trial.
std::unique_ptr<Strategy> make_incremental(const SearchSpace& space, const StrategyOptions& options);

// --- What other tools do, on the same plans and samples as `chain`, which is compared with it.
// NNCF's accuracy control: from every group at its cheapest choice, each group reverted to float32 on its own tells
// their order; they are reverted one after the other in it, and ranked anew whenever that makes the loss worse.
std::unique_ptr<Strategy> make_greedy_revert(const SearchSpace& space, const StrategyOptions& options);
// AIMET's mixed precision: every choice on its own tells its loss; the list by loss, whatever the choices save, is
// followed from float, and plans evenly along it are measured.
std::unique_ptr<Strategy> make_sensitivity_list(const SearchSpace& space, const StrategyOptions& options);
// Losses of one choice at a time taken as additive, as model compression toolkits do it with an integer program; here a
// dynamic program gives the plan of least loss for each of as many costs as the budget allows, with latency among the
// objectives for mixtures of the costs. It is AutoRound's AutoScheme with measured losses for scores: that one's are of
// first order, weight errors times gradients, which a runtime for inference does not give.
std::unique_ptr<Strategy> make_dynamic_program(const SearchSpace& space, const StrategyOptions& options);
// EXL3's optimizer (exllamav3, conversion/optimize_model.py): from every group at its cheapest choice, each dearer
// choice alone tells by how much the loss falls for its bytes; always the step that saves most for them is taken.
std::unique_ptr<Strategy> make_greedy_bits(const SearchSpace& space, const StrategyOptions& options);
// llama.cpp's --target-bpw (pull request 15550): errors of the weights weighted by the squares of their inputs,
// relative to each output, are what plans lose; along each group's hull, as a Lagrangian finds them.
std::unique_ptr<Strategy> make_weighted_error(const SearchSpace& space, const StrategyOptions& options);
// NNCF's scores for weights in 4 and 8 bits (nncf, weight_compression/mixed_precision.py), by its names: the groups
// with the lowest go from the second cheapest scheme to the cheapest, one after the other. Nothing is measured for
// them.
std::unique_ptr<Strategy> make_weight_quantization_error(const SearchSpace& space, const StrategyOptions& options);
std::unique_ptr<Strategy> make_hessian_input_activation(const SearchSpace& space, const StrategyOptions& options);
std::unique_ptr<Strategy> make_mean_activation_variance(const SearchSpace& space, const StrategyOptions& options);
std::unique_ptr<Strategy> make_mean_activation_magnitude(const SearchSpace& space, const StrategyOptions& options);
// The rule of onnxruntime-genai's builder (builders/base.py: last_matmul, mixed_layers), which llama.cpp's quantizer
// had first: the cheapest scheme but for the head, for some blocks' value and down projections, or for both.
std::unique_ptr<Strategy> make_mixed_layers(const SearchSpace& space, const StrategyOptions& options);
// NSGA-II (Deb et al. 2002) from random plans: binary tournaments, uniform crossover, one mutation a plan on average.
std::unique_ptr<Strategy> make_nsga2(const SearchSpace& space, const StrategyOptions& options);
// Plans at random, from few groups changed to all.
std::unique_ptr<Strategy> make_random(const SearchSpace& space, const StrategyOptions& options);

namespace internal {

// What a row tells who runs the strategy.
struct StrategyTraits {
  bool searches = true;  // on samples of its own; else it measures for the report alone
  bool draws = false;    // by the seed
  // Begins with the uniform plans, and goes on from what the study holds when it is made anew: so it takes what is
  // learned on the way, and does with few candidates.
  bool adapts = false;
  bool reads_threshold = false;  // StrategyOptions::threshold
};
StrategyTraits traits_of(const std::string& strategy);  // of one of the caller's own: the defaults

// Proposal::step, where something else asks for it.
inline constexpr const char* kUniformStep = "uniform";  // a scheme everywhere
inline constexpr const char* kOneInStep = "one-in";     // one group, all others in float
inline constexpr const char* kBoundStep = "bound";      // what fills a bound of the size: on top of the evaluations
inline constexpr const char* kChainStep = "chain";
inline constexpr const char* kSwapStep = "swap";

// Each with a share of its own, 0 to 1, of the groups that are not float32; those take each of their choices alike.
std::vector<Assignment> random_plans(const Assignments& assignments, size_t count, uint64_t seed);
// None twice, nor float; fewer where the space has few.
std::vector<Assignment> distinct_plans(const Assignments& assignments, size_t count, uint64_t seed);

}  // namespace internal
}  // namespace seqto
