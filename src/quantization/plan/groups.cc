#include "base/json.h"
#include "seqto/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "quantization/plan/attention_parts.h"
#include "quantization/plan/links.h"
#include "quantization/plan/shared_weights.h"
#include "quantization/plan/siblings.h"
#include "quantization/plan/weight_sites.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using namespace internal;

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model), nodes_(model.graph.nodes), index_(model) {
    founder_.assign(nodes_.size(), kNone);
    sets_ = Links(nodes_.size());
    find_members();
  }

  std::vector<std::vector<LayerId>> run(const GroupOptions& options) {
    found_by_weights();
    found_by_attention();
    for (const auto& patterns : options.together) put_together(patterns);
    found_by_averages();
    attach_to_producers(false);
    attach_to_readers();
    attach_to_producers(true);
    return collect();
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Layers with a choice: what the quantizer takes, and what else computes on float tensors and may be float16.
  void find_members() {
    std::vector<Layer> all = layers(model_);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& n = nodes_[i];
      bool floats = std::any_of(n.outputs.begin(), n.outputs.end(), [&](const auto& o) { return index_.is_float(o); });
      bool choice = all[i].schemes.size() > 1 && !internal::is_constant(n) && (floats || all[i].weight_bytes > 0);
      members_.push_back(all[i].quantizable || choice);
    }
  }

  // --- sets of nodes, known by one of them

  void found(size_t i) { founder_[i] = i; }
  void join(size_t a, size_t b) { sets_.link(founder_[a], founder_[b]); }

  // --- weights

  void found_by_weights() {
    // Constant tensor -> the float constant that it is, or is made of by nodes that read constants alone.
    std::unordered_map<std::string, std::string> root;
    for (const auto* constants : {&index_.initializers, &index_.constants})
      for (const auto& [name, tensor] : *constants)
        if (tensor->is_float()) root[name] = name;
    auto weight = [&](const std::string& name) -> const Tensor* {
      auto it = root.find(name);
      return it == root.end() ? nullptr : index_.constant(it->second);
    };
    std::unordered_set<std::string> weights;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& n = nodes_[i];
      if (is_constant(n)) {
        auto from =
            std::find_if(n.inputs.begin(), n.inputs.end(), [&](const auto& name) { return root.contains(name); });
        for (const auto& output : n.outputs)
          if (from != n.inputs.end() && root.emplace(output, root.at(*from)).second) computed_.insert(output);
        continue;
      }
      if (!members_[i]) continue;
      for (const WeightSite& site : weight_sites(n, weight)) {
        weights.insert(root.at(n.inputs[site.input]));
        found(i);
      }
    }
    // Whoever reads a weight, reads it in the form that it gets.
    std::unordered_map<std::string, size_t> first;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!members_[i] || is_constant(nodes_[i])) continue;
      for (const auto& name : nodes_[i].inputs) {
        auto it = root.find(name);
        if (it == root.end() || !weights.contains(it->second)) continue;
        if (founder_[i] == kNone) found(i);
        join(i, first.emplace(it->second, i).first->second);
      }
    }
  }

  bool is_constant(const Node& n) const {
    return !n.inputs.empty() && std::all_of(n.inputs.begin(), n.inputs.end(), [&](const auto& name) {
      return name.empty() || computed_.contains(name) || index_.constant(name);
    });
  }

  // --- attention

  // What is one layer in another export takes one decision in all of them: Q, K and V, gate and up. So does what lies
  // between Q, K, V and the layer behind the attention.
  void found_by_attention() {
    std::vector<bool> weighted(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) weighted[i] = founder_[i] != kNone || is_constant(nodes_[i]);
    for (const auto& [a, b] : siblings(model_.graph, index_, weighted)) join(a, b);
    const std::vector<size_t> parts = attention_parts(model_.graph, index_, weighted, [&](const std::string& name) {
      return carries_values(name) && !computed_.contains(name) && !index_.constant(name);
    });
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (parts[i] != kNoAttention) founder_[i] = parts[i];
  }

  // --- what the user wants

  void put_together(const std::vector<std::string>& patterns) {
    std::vector<LayerId> names = expand_patterns(patterns, model_);
    std::unordered_set<LayerId> wanted(names.begin(), names.end());
    size_t first = kNone;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!members_[i] || !wanted.contains(nodes_[i].name)) continue;
      if (founder_[i] == kNone) found(i);
      if (first == kNone) first = i;
      join(first, i);
    }
    if (first == kNone)
      throw Error(Code::kUsage, fmt::format("[groups] '{}' found, which names no layer that could be quantized; "
                                            "`seqto inspect` lists those that can",
                                            fmt::join(patterns, ",")));
  }

  // --- layers without weights

  // The mean of many codes lies between codes: to round it anew loses what the averaging gained, and saves next to no
  // time, as so few values are left.
  void found_by_averages() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (members_[i] && founder_[i] == kNone && nodes_[i].domain.empty() && has(nodes_[i], kAverages)) found(i);
  }

  // Tensors of unknown type may be float.
  bool carries_values(const std::string& name) const {
    if (name.empty()) return false;
    auto type = index_.types.find(name);
    return type == index_.types.end() || type->second == DataType::kUndefined || index_.is_float(name);
  }

  // Nodes that are no layers are passed through. `alone`: a layer that nothing leads to founds a group.
  void attach_to_producers(bool alone) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (founder_[i] != kNone) continue;
      size_t latest = kNone;
      for (const auto& name : nodes_[i].inputs) {
        const Node* producer = index_.edges.producer(name);
        const size_t place = producer ? index_.edges.place(*producer) : kNone;
        if (!producer || founder_[place] == kNone || !carries_values(name)) continue;
        if (latest == kNone || place > latest) latest = place;
      }
      if (latest != kNone) founder_[i] = founder_[latest];
      else if (alone && members_[i]) found(i);
    }
  }

  void attach_to_readers() {
    std::unordered_map<std::string, size_t> first;  // tensor -> its first reader that is in a group
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& n = nodes_[i];
      size_t reader = kNone;
      for (const auto& output : n.outputs)
        if (auto it = first.find(output); it != first.end()) reader = std::min(reader, it->second);
      if (founder_[i] == kNone && reader != kNone) founder_[i] = founder_[reader];
      if (founder_[i] == kNone) continue;
      for (const auto& name : n.inputs)
        if (carries_values(name)) first[name] = i;
    }
  }

  std::vector<std::vector<LayerId>> collect() {
    std::vector<std::vector<LayerId>> result;
    std::unordered_map<size_t, size_t> places;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!members_[i]) continue;
      auto [place, added] = places.emplace(sets_.find(founder_[i]), result.size());
      if (added) result.emplace_back();
      result[place->second].push_back(nodes_[i].name);
    }
    return result;
  }

  const Model& model_;
  const std::vector<Node>& nodes_;
  GraphView index_;
  std::vector<bool> members_;
  std::vector<size_t> founder_;               // by node: the one whose set it belongs to
  Links sets_;                                // of founders
  std::unordered_set<std::string> computed_;  // tensors made of constants
};

}  // namespace

std::vector<std::vector<LayerId>> groups(const Model& model, const GroupOptions& options) {
  return Finder(model).run(options);
}

std::vector<std::string> widen_tied_weights(Plan& plan, const Model& model) {
  std::vector<std::string> notes;
  for (const SharedWeight& weight : shared_weights(model, GraphView(model))) {
    const auto reads = [&](auto is_such) {
      return std::ranges::any_of(weight.readers, [&](size_t i) { return is_such(model.graph.nodes[i]); });
    };
    if (!reads(is_gather) || !reads([](const Node& n) { return has(n, kMatrixProduct); })) continue;
    std::vector<LayerId> widened;
    for (size_t i : weight.readers) {
      const LayerId& layer = model.graph.nodes[i].name;
      auto it = plan.schemes.find(layer);
      if (it == plan.schemes.end() || it->second != Scheme::kInt4Weights || plan.options[layer].bits) continue;
      plan.options[layer].bits = 8;
      widened.push_back(fmt::format("'{}'", layer));
    }
    if (!widened.empty())
      notes.push_back(
          fmt::format("layers {} share weight '{}', which is stored in 8 bits: in fewer it would lose at both; a plan "
                      "can give them other ones",
                      fmt::join(widened, " and "), weight.name));
  }
  return notes;
}

std::vector<std::vector<std::string>> groups_from_json(const std::string& text) {
  try {
    return internal::parse_json(text).at("groups").get<std::vector<std::vector<std::string>>>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[groups] {}; {{\"groups\": [[pattern, ...], ...]}} was expected, as `seqto inspect --json` "
                    "prints it; correct the file",
                    error.what()));
  }
}

}  // namespace seqto
