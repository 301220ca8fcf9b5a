#include "model/check_graph.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/utf8.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Operators on codes, most of which ONNX has no schema for. Of `inputs`, one character each: 1 is needed, . may be
// absent; what is beyond them may be absent, too.
struct Arity {
  std::string_view op_type, inputs;
  int outputs = 1;
};
constexpr std::array kArities{
    Arity{"QuantizeLinear", "11"},
    Arity{"DequantizeLinear", "11"},
    Arity{"DynamicQuantizeLinear", "1", 3},
    Arity{"QLinearConv", "11111111"},
    Arity{"QLinearMatMul", "11111111"},
    Arity{"QGemm", "111111"},
    Arity{"QLinearAdd", "11.11.1"},
    Arity{"QLinearMul", "11.11.1"},
    Arity{"QLinearSigmoid", "11.1"},
    Arity{"QLinearLeakyRelu", "11.1"},
    Arity{"QLinearAveragePool", "11.1"},
    Arity{"QLinearGlobalAveragePool", "11111"},
    Arity{"QLinearReduceMean", "11.1"},
    Arity{"QLinearSoftmax", "11.11"},
    Arity{"QLinearConcat", "11111"},
    Arity{"QLinearWhere", "111111111"},
    Arity{"MatMulInteger", "11"},
    Arity{"ConvInteger", "11"},
    Arity{"DynamicQuantizeMatMul", "111"},
    Arity{"MatMulIntegerToFloat", "1111"},
    Arity{"DynamicQuantizeLSTM", "111.....1111"},
    Arity{"QAttention", "11111"},
    Arity{"QEmbedLayerNormalization", "1.11.11.11.11"},
    Arity{"MatMulNBits", "111"},
    Arity{"GatherBlockQuantized", "111"},
};

// The least and the greatest rank of an input, which ONNX compares during shape inference alone.
struct Rank {
  std::string_view op_type;
  int input, least, greatest;
};
constexpr int kAnyRank = 1 << 16;
constexpr std::array kRanks{
    Rank{"Conv", 1, 3, kAnyRank},
    Rank{"ConvTranspose", 1, 3, kAnyRank},
    Rank{"ConvInteger", 1, 3, kAnyRank},
    Rank{"QLinearConv", 3, 3, kAnyRank},
    Rank{"Gemm", 0, 2, 2},
    Rank{"Gemm", 1, 2, 2},
    Rank{"QGemm", 0, 2, 2},
    Rank{"QGemm", 3, 2, 2},
    Rank{"MatMul", 0, 1, kAnyRank},
    Rank{"MatMul", 1, 1, kAnyRank},
    Rank{"MatMulInteger", 0, 1, kAnyRank},
    Rank{"MatMulInteger", 1, 1, kAnyRank},
    Rank{"QLinearMatMul", 0, 1, kAnyRank},
    Rank{"QLinearMatMul", 3, 1, kAnyRank},
    Rank{"LSTM", 1, 3, 3},
    Rank{"LSTM", 2, 3, 3},
    Rank{"GRU", 1, 3, 3},
    Rank{"GRU", 2, 3, 3},
    Rank{"RNN", 1, 3, 3},
    Rank{"RNN", 2, 3, 3},
    Rank{"DynamicQuantizeLSTM", 1, 3, 3},
    Rank{"DynamicQuantizeLSTM", 2, 3, 3},
    Rank{"Attention", 1, 2, kAnyRank},
    Rank{"Gather", 0, 1, kAnyRank},
    Rank{"EmbedLayerNormalization", 2, 2, 2},
    Rank{"EmbedLayerNormalization", 3, 2, 2},
    Rank{"EmbedLayerNormalization", 4, 2, 2},
};

// The names of a graph and of those around it, and the ranks of constants.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_set<std::string_view> names = {};
  std::unordered_map<std::string_view, int> ranks = {};

  void add_constant(std::string_view name, int rank) {
    names.insert(name);
    ranks[name] = rank;
  }
  bool has(std::string_view name) const { return names.contains(name) || (outer && outer->has(name)); }
  int rank(std::string_view name, int otherwise) const {
    if (auto it = ranks.find(name); it != ranks.end()) return it->second;
    return outer && !names.contains(name) ? outer->rank(name, otherwise) : otherwise;
  }
};

using Names = std::unordered_set<std::string_view>;

class GraphChecker {
 public:
  GraphChecker(const onnx::ModelProto& model, const std::string& where) : where_(where) {
    for (const auto& o : model.opset_import()) opsets_[domain_of(o.domain())] = o.version();
  }

  // The outer tensors that the graph reads.
  Names check(const onnx::GraphProto& graph, const Scope* outer) const {
    Scope scope{outer};
    auto writers = write_names(graph, scope);
    Names captures;
    auto read = [&](std::string_view name, const onnx::NodeProto* node) {
      if (scope.names.contains(name)) return;
      if (!outer || !outer->has(name))
        fail(fmt::format("{} '{}' found, which nothing writes", node ? spoken(*node) + " that reads" : "output", name),
             "an input, a weight or the output of a node was expected");
      captures.insert(name);
    };
    std::vector<std::vector<int>> readers(static_cast<size_t>(graph.node_size()));
    std::vector<int> waits_for(readers.size());
    for (int i = 0; i < graph.node_size(); ++i) {
      const auto& node = graph.node(i);
      check_node(node);
      check_ranks(node, scope);
      for (std::string_view name : reads(node, scope)) {
        read(name, &node);
        if (auto writer = writers.find(name); writer != writers.end()) {
          readers[static_cast<size_t>(writer->second)].push_back(i);
          ++waits_for[static_cast<size_t>(i)];
        }
      }
    }
    for (const auto& v : graph.output()) check_name(v.name()), read(v.name(), nullptr);
    check_order(graph, readers, std::move(waits_for));
    return captures;
  }

 private:
  [[noreturn]] void fail(const std::string& found, std::string_view expected) const {
    throw Error(Code::kInvalidInput, fmt::format("[load] {}: {}; {}; export the model again", where_, found, expected));
  }

  static std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

  static std::string spoken(const onnx::NodeProto& node) {
    std::string_view name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
    return fmt::format("{} '{}'", node.op_type(), name);
  }

  // Plans, studies and reports are JSON and call layers and tensors by their names.
  void check_name(std::string_view name) const {
    if (!is_utf8(name)) fail(fmt::format("the name '{}' found", ascii(name)), "UTF-8 was expected");
  }

  // Fills the scope; returns who writes what.
  std::unordered_map<std::string_view, int> write_names(const onnx::GraphProto& graph, Scope& scope) const {
    std::unordered_map<std::string_view, int> writers;
    for (const auto& v : graph.input()) {
      check_name(v.name());
      if (!scope.names.insert(v.name()).second)
        fail(fmt::format("two inputs '{}' found", v.name()), "one of each name was expected");
    }
    for (const auto& t : graph.initializer()) {
      check_name(t.name());
      scope.add_constant(t.name(), t.dims_size());
    }
    for (const auto& t : graph.sparse_initializer()) scope.names.insert(t.values().name());
    for (int i = 0; i < graph.node_size(); ++i)
      for (const auto& name : graph.node(i).output()) {
        if (name.empty()) continue;
        check_name(name);
        writers[name] = i;
        if (!scope.names.insert(name).second)
          fail(fmt::format("{} that writes '{}' once more found", spoken(graph.node(i)), name),
               "one writer of each tensor was expected");
      }
    for (const auto& node : graph.node())
      if (node.op_type() == "Constant" && node.output_size() > 0)
        for (const auto& a : node.attribute())
          if (a.has_t()) scope.ranks[node.output(0)] = a.t().dims_size();
    return writers;
  }

  // What a node and its bodies read.
  Names reads(const onnx::NodeProto& node, const Scope& scope) const {
    Names names;
    for (const auto& name : node.input())
      if (!name.empty()) names.insert(name);
    for (const auto& a : node.attribute()) {
      if (a.has_g()) names.merge(check(a.g(), &scope));
      for (const auto& body : a.graphs()) names.merge(check(body, &scope));
    }
    return names;
  }

  void check_node(const onnx::NodeProto& node) const {
    check_name(node.name()), check_name(node.op_type()), check_name(node.domain());
    for (const Arity& arity : kArities)
      if (arity.op_type == node.op_type()) check_arity(node, arity);
    auto opset = opsets_.find(domain_of(node.domain()));
    if (node.output_size() == 0)
      fail(fmt::format("{} without outputs found", spoken(node)), "at least one was expected");
    if (opset == opsets_.end()) {
      // Runtimes know their own domains without being told.
      if (domain_of(node.domain()).empty())
        fail(fmt::format("{} of ai.onnx found, and no opset of ai.onnx", spoken(node)), "an opset was expected");
      return check_namesake(node);
    }
    const auto* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset->second), opset->first);
    if (!schema) return check_namesake(node);
    try {
      schema->Verify(node);
    } catch (const std::exception& error) {
      fail(fmt::format("{} found, of which ONNX says: {}", spoken(node), error.what()), "a valid node was expected");
    }
  }

  // Operators of other domains are known by their names alone: what is called as one of ONNX reads as much.
  void check_namesake(const onnx::NodeProto& node) const {
    constexpr int kOpset = 21;  // the Attention of later ones reads more than onnxruntime's
    const auto* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), kOpset, "");
    if (!schema) return;
    // onnxruntime's Range can do without a step.
    const int least = node.op_type() == "Range" ? 2 : schema->min_input();
    if (node.input_size() >= least) return;
    fail(fmt::format("{} of the domain '{}' with {} inputs found", spoken(node), node.domain(), node.input_size()),
         fmt::format("at least {} were expected, as of ONNX's own {}", least, node.op_type()));
  }

  void check_arity(const onnx::NodeProto& node, const Arity& arity) const {
    for (size_t k = 0; k < arity.inputs.size(); ++k) {
      int i = static_cast<int>(k);
      if (arity.inputs[k] == '1' && (i >= node.input_size() || node.input(i).empty()))
        fail(
            fmt::format("{} without input {} found", spoken(node), k),
            fmt::format("at least {} inputs were expected", std::count(arity.inputs.begin(), arity.inputs.end(), '1')));
    }
    if (node.output_size() < arity.outputs)
      fail(fmt::format("{} with {} outputs found", spoken(node), node.output_size()),
           fmt::format("{} were expected", arity.outputs));
  }

  void check_ranks(const onnx::NodeProto& node, const Scope& scope) const {
    for (const Rank& r : kRanks) {
      if (r.op_type != node.op_type() || r.input >= node.input_size()) continue;
      int rank = scope.rank(node.input(r.input), r.least);
      if (rank < r.least || rank > r.greatest)
        fail(fmt::format("{} with {} dimensions of '{}' found", spoken(node), rank, node.input(r.input)),
             fmt::format("{}{} were expected", r.least == r.greatest ? "" : "at least ", r.least));
    }
  }

  // Takes away who waits for nobody, until nobody is left.
  void check_order(const onnx::GraphProto& graph, const std::vector<std::vector<int>>& readers,
                   std::vector<int> waits_for) const {
    std::vector<int> ready;
    for (size_t i = 0; i < waits_for.size(); ++i)
      if (waits_for[i] == 0) ready.push_back(static_cast<int>(i));
    for (size_t next = 0; next < ready.size(); ++next)
      for (int reader : readers[static_cast<size_t>(ready[next])])
        if (--waits_for[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
    if (ready.size() == waits_for.size()) return;
    auto waiting = std::find_if(waits_for.begin(), waits_for.end(), [](int n) { return n > 0; });
    fail(fmt::format("{} that reads what follows from it found",
                     spoken(graph.node(static_cast<int>(waiting - waits_for.begin())))),
         "a graph without cycles was expected");
  }

  const std::string& where_;
  std::unordered_map<std::string, int64_t> opsets_;
};

}  // namespace

void check_graph(const onnx::ModelProto& model, const std::string& where, std::span<const Initializer> left_out) {
  Scope weights;
  for (const Initializer& i : left_out) weights.add_constant(i.name, static_cast<int>(i.tensor.dims().size()));
  GraphChecker(model, where).check(model.graph(), &weights);
}

}  // namespace seqto::internal
