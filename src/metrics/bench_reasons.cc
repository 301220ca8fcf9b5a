// Why a model is not faster or not smaller than another: read off the files and the graphs that the runtime made.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/op_traits.h"
#include "seqto/bench.h"
#include "seqto/explain.h"

namespace seqto {
namespace {

using namespace internal;

struct Operators {
  int64_t count = 0, ns = 0;
};

// Op types under which a runtime computes a layer in float, fused or not.
std::string float_operator(const std::string& op_type) {
  static const std::map<std::string, std::string> kFused{
      {"FusedConv", "Conv"}, {"NhwcFusedConv", "Conv"}, {"FusedMatMul", "MatMul"}, {"FusedGemm", "Gemm"}};
  static const std::set<std::string> kPlain{
      "Add",    "AveragePool", "Conv",   "ConvTranspose", "Gemm", "GlobalAveragePool",  "InstanceNormalization",
      "LSTM",   "LeakyRelu",   "MatMul", "Mul",           "GRU",  "LayerNormalization", "Sigmoid",
      "Softmax"};
  if (auto it = kFused.find(op_type); it != kFused.end()) return it->second;
  return kPlain.contains(op_type) ? op_type : "";
}

// The layer that an integer operator computes, as the file names it.
std::string layer_of(const std::string& op_type) {
  static const std::map<std::string, std::string> kNamed{
      {"QGemm", "Gemm"},           {"ConvInteger", "Conv"},         {"MatMulIntegerToFloat", "MatMul"},
      {"MatMulInteger", "MatMul"}, {"DynamicQuantizeLSTM", "LSTM"}, {"DynamicQuantizeMatMul", "MatMul"}};
  if (auto it = kNamed.find(op_type); it != kNamed.end()) return it->second;
  constexpr std::string_view kPrefix = "QLinear";
  return op_type.starts_with(kPrefix) ? op_type.substr(kPrefix.size()) : "";
}

bool is_integer_operator(const std::string& op) { return is_quantized_operator(op) && !has(op, kCodedWeights); }
bool is_conversion(const std::string& op) { return has(op, kConverts) || op == "Cast"; }

// What a run of a model consists of.
struct Run {
  explicit Run(const BenchedModel& m) : nodes(static_cast<int64_t>(m.nodes.size())) {
    int64_t profiled_ns = 0;
    for (const NodePlacement& n : m.nodes) profiled_ns += n.ns;
    // To profile a node takes time of its own: of the profile only the shares count.
    const double scale = profiled_ns > 0 ? static_cast<double>(m.p50_ns) / static_cast<double>(profiled_ns) : 0;
    for (NodePlacement n : m.nodes) {
      n.ns = std::llround(scale * static_cast<double>(n.ns));
      total_ns += n.ns;
      auto add = [&](Operators& to) { ++to.count, to.ns += n.ns; };
      const std::string plain = float_operator(n.op_type);
      if (!plain.empty()) add(floats[plain]);
      if (has(plain, kProduct | kRecurrent)) weighted_ns += n.ns;
      if (is_integer_operator(n.op_type)) add(integers[n.op_type]), integer_ns += n.ns;
      if (is_conversion(n.op_type)) add(conversions[n.op_type]), conversion_ns += n.ns;
      by_type[n.op_type] += n.ns;
    }
  }
  int64_t nodes, total_ns = 0, weighted_ns = 0, integer_ns = 0, conversion_ns = 0;
  std::map<std::string, Operators> floats, integers, conversions;
  std::map<std::string, int64_t> by_type;
};

std::string counted(const std::map<std::string, Operators>& operators) {
  std::vector<std::string> words;
  for (const auto& [op, o] : operators) words.push_back(fmt::format("{} {}", o.count, op));
  return fmt::format("{}", fmt::join(words, ", "));
}

int percent(int64_t part, int64_t whole) { return whole > 0 ? static_cast<int>((100 * part + whole / 2) / whole) : 0; }

int64_t quantizable_layers(const Model& model) {
  int64_t count = 0;
  for (const Layer& l : layers(model)) count += l.weight_bytes > 0 && l.schemes.size() > 1;
  return count;
}

std::vector<std::string> size_reasons(const BenchedModel& first, const BenchedModel& other, bool same_size) {
  if (other.form != "float") {
    if (same_size) return {"Same size: what the weights save, the scales and added nodes take"};
    if (other.size_bytes < first.size_bytes) return {};
    return {"larger than the original: the scales and added nodes take more than the weights save"};
  }
  if (!same_size || first.form != "float") return {};
  const int64_t layers = quantizable_layers(load_model(first.path));
  if (layers == 0) return {"Same size: nothing was quantizable"};
  return {fmt::format("Same size: nothing is quantized in it, though {} layers could be", layers)};
}

// Layers that are quantized in the file and that the runtime computes in float all the same. It makes operators of a
// type out of others, as Mul of HardSwish: what computes on integers is none, and neither is what the float model has
// too.
std::string without_kernel(const Model& model, const Run& after, const Run* original) {
  std::map<std::string, int64_t> quantized, in_float;
  for (const LayerReport& l : explain(model)) {
    const bool integer = l.scheme == "int8" || l.scheme == "int8w_int16a" || l.scheme == "int8_dynamic";
    ++(integer ? quantized : in_float)[l.op_type];
  }
  std::map<std::string, int64_t> on_integers;
  for (const auto& [op, o] : after.integers) on_integers[layer_of(op)] += o.count;
  std::vector<std::string> words;
  for (const auto& [op, o] : after.floats) {
    const int64_t layers = quantized[op];
    const int64_t of_float = original && original->floats.contains(op) ? original->floats.at(op).count : 0;
    const int64_t excess = std::min({layers - on_integers[op], o.count - in_float[op], o.count + layers - of_float});
    if (excess > 0) words.push_back(fmt::format("{} of {} {}", excess, layers, op));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string microseconds(int64_t ns) { return fmt::format("{:.0f} µs", static_cast<double>(ns) / 1e3); }

// What quantization itself costs.
std::vector<std::string> quantization_reasons(const BenchedModel& first, const BenchedModel& other, const Run& before,
                                              const Run& after) {
  std::vector<std::string> reasons;
  constexpr int64_t kSmallNs = 100'000;
  if (first.p50_ns < kSmallNs)
    reasons.push_back(fmt::format(
        "too small: the original takes {} a run, so the fixed cost of each node decides{}", microseconds(first.p50_ns),
        after.nodes > before.nodes ? fmt::format("; {} nodes run instead of {}", after.nodes, before.nodes) : ""));
  if (const std::string floats =
          without_kernel(load_model(other.path), after, first.form == "float" ? &before : nullptr);
      !floats.empty())
    reasons.push_back(
        fmt::format("no int8 kernel: {} quantized in the file are computed in float between conversions", floats));
  const int64_t conversions = after.conversion_ns - before.conversion_ns;
  if (percent(conversions, after.total_ns) >= 10)
    reasons.push_back(fmt::format("conversions that the runtime did not fuse away take about {} % of a run: {}",
                                  percent(conversions, after.total_ns), counted(after.conversions)));
  const int64_t replaced = before.weighted_ns - after.weighted_ns;
  if (after.integer_ns > 0 && replaced > 0 && after.integer_ns > replaced)
    reasons.push_back(fmt::format("its integer operators ({}) take about {}, the float ones that they replace {}",
                                  counted(after.integers), microseconds(after.integer_ns), microseconds(replaced)));
  if (after.integers.empty() && (other.form == "weights" || other.form == "float16"))
    reasons.emplace_back("its weights are stored in fewer bits and computed in float: that saves size, not time");
  return reasons;
}

std::vector<std::string> speed_reasons(const BenchedModel& first, const BenchedModel& other, Speed speed) {
  const Run before(first), after(other);
  if (after.nodes == 0) return {"the runtime does not tell what it made of the graph"};
  std::vector<std::string> reasons;
  if (other.form != "float") reasons = quantization_reasons(first, other, before, after);
  if (reasons.empty() && speed == Speed::kSlower) {
    auto most = std::ranges::max_element(after.by_type, {}, [](const auto& entry) { return entry.second; });
    reasons.push_back(fmt::format("most of its time goes to {}: about {} % of {} nodes' time", most->first,
                                  percent(most->second, after.total_ns), after.nodes));
  }
  return reasons;
}

}  // namespace

std::vector<std::string> reasons(const BenchedModel& first, const BenchedModel& other, const BenchComparison& found) {
  std::vector<std::string> all = size_reasons(first, other, found.same_size);
  if (found.speed != Speed::kFaster)
    std::ranges::copy(speed_reasons(first, other, found.speed), std::back_inserter(all));
  return all;
}

}  // namespace seqto
