// trtexec's --layerPrecisions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "quantization/dialects/dialects.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr char kFlag[] = "--layerPrecisions";
constexpr char kBlanks[] = " \t\r\n\"'";

// The list alone: all of the text, or the argument's value.
std::string_view list_in(std::string_view text) {
  const size_t flag = text.find(kFlag);
  if (flag != std::string_view::npos) {
    text.remove_prefix(flag + sizeof kFlag - 1);
    const size_t value = text.find_first_not_of(std::string("=") + kBlanks);
    text.remove_prefix(std::min(value, text.size()));
    text = text.substr(0, text.find_first_of(kBlanks));
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Layer -> precision, the last word of each.
std::map<std::string, std::string> precisions_in(const std::string& text) {
  std::map<std::string, std::string> precisions;
  std::string_view rest = list_in(text);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    if (entry.empty()) continue;
    // The last colon, as trtexec has it: names may hold others.
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == entry.size())
      throw Error(Code::kInvalidInput,
                  fmt::format("[plan] '{}' found in {}; NAME:PRECISION was expected", entry, kFlag));
    precisions[std::string(entry.substr(0, colon))] = entry.substr(colon + 1);
  }
  if (precisions.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[plan] {} without a layer found; NAME:PRECISION,... was expected", kFlag));
  return precisions;
}

struct Meaning {
  const char* precision;
  Scheme scheme;
};
constexpr Meaning kMeanings[] = {{"fp32", Scheme::kFloat32}, {"fp16", Scheme::kFloat16},  {"bf16", Scheme::kFloat16},
                                 {"int8", Scheme::kInt8},    {"int32", Scheme::kFloat32}, {"int64", Scheme::kFloat32},
                                 {"bool", Scheme::kFloat32}};

}  // namespace

ForeignPlan read_tensorrt(const std::string& text, const Model& model) {
  std::map<std::string, std::string> precisions = precisions_in(text);
  ForeignPlan result;
  std::set<std::string> unsaid, lost;
  const auto everywhere = precisions.find("*");
  for (const Layer& layer : layers(model)) {
    const auto it = precisions.contains(layer.id) ? precisions.find(layer.id) : everywhere;
    Scheme scheme = Scheme::kInt8;  // what TensorRT may choose for itself
    if (it != precisions.end()) {
      const auto* meaning = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                         [&](const Meaning& m) { return it->second == m.precision; });
      scheme = meaning == std::end(kMeanings) ? Scheme::kFloat32 : meaning->scheme;
      if (meaning == std::end(kMeanings)) unsaid.insert(it->second);
      if (it->second == "bf16") lost.insert("bf16 becomes float16");
    }
    const bool can = std::find(layer.schemes.begin(), layer.schemes.end(), scheme) != layer.schemes.end();
    if (can && scheme != Scheme::kFloat32) result.plan.schemes[layer.id] = scheme;
    if (it != precisions.end() && it != everywhere) precisions.erase(it);
  }
  for (const auto& precision : unsaid)
    result.notes.push_back(fmt::format("the precision {} has no scheme here, float32 there", precision));
  result.notes.insert(result.notes.end(), lost.begin(), lost.end());
  precisions.erase("*");
  std::vector<std::string> unknown;
  for (const auto& [name, precision] : precisions) unknown.push_back(name);
  // TensorRT has layers of its own, which no node is called after.
  if (!unknown.empty())
    result.notes.push_back(fmt::format("no node of the model is called {}", fmt::join(unknown, ", ")));
  return result;
}

PlanText write_tensorrt(const ForeignPlan& plan, const Model& model) {
  PlanText result;
  std::vector<std::string> entries;
  std::map<std::string_view, int> lost;
  bool half = false;
  for (const Layer& layer : layers(model)) {
    if (layer.schemes.size() < 2) continue;  // float in any case
    const auto it = plan.plan.schemes.find(layer.id);
    const Scheme scheme = it == plan.plan.schemes.end() ? Scheme::kFloat32 : it->second;
    const char* precision = "fp32";
    if (scheme == Scheme::kInt8) precision = "int8";
    else if (scheme == Scheme::kFloat16) precision = "fp16";
    else if (scheme != Scheme::kFloat32) ++lost[to_string(scheme)];
    // Layers that only float16 could change need no word while nothing is float16.
    const bool could_be_int8 =
        std::find(layer.schemes.begin(), layer.schemes.end(), Scheme::kInt8) != layer.schemes.end();
    if (!could_be_int8 && scheme == Scheme::kFloat32) continue;
    if (layer.id.find_first_of(std::string(",") + kBlanks) != std::string::npos)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[plan] the layer '{}' found; {} cannot name layers with commas, quotes or blanks; rename "
                      "the node",
                      layer.id, kFlag));
    half |= scheme == Scheme::kFloat16;
    entries.push_back(fmt::format("{}:{}", layer.id, precision));
  }
  result.text = fmt::format("--int8{} --precisionConstraints=obey {}={}\n", half ? " --fp16" : "", kFlag,
                            fmt::join(entries, ","));
  for (const auto& [scheme, count] : lost)
    result.notes.push_back(fmt::format("{} layer{} in {}: TensorRT's precisions have no word for it, fp32 there", count,
                                       count == 1 ? "" : "s", scheme));
  return result;
}

}  // namespace seqto::internal
