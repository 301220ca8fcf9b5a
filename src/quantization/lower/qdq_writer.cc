#include "quantization/lower/qdq_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/sort_nodes.h"
#include "quantization/lower/writers.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {
namespace {

class Writer {
 public:
  Writer(const Model& model, const GraphView& view, const Encoding& encoding, const QuantizeOptions& options)
      : model_(model),
        view_(view),
        encoding_(encoding),
        graph_(*encoding.graph),
        options_(options),
        edges_(graph_.nodes, model.graph.outputs, graph_.removed),
        nodes_(graph_.nodes) {
    if (in_contrib_domain(options, view.opset)) domain_ = "com.microsoft";
    for (const auto& [name, tensor] : view.initializers) taken_.insert(name);
    for (const Initializer& i : graph_.new_initializers) taken_.insert(i.name);
    for (const auto* values : {&model.graph.inputs, &model.graph.value_info})
      for (const ValueInfo& value : *values) taken_.insert(value.name);
    for (const Node& node : nodes_) taken_.insert(node.outputs.begin(), node.outputs.end());
  }

  Model run() {
    for (const EncodedTensor& tensor : encoding_.tensors) {
      if (view_.is_initializer(tensor.name)) write_weight(tensor);
      else if (tensor.converted) write_converted(tensor);
      else if (options_.dedicated_qdq_pair && receiver_count(tensor.name) > 1) write_dedicated_pairs(tensor);
      else write_pair(tensor);
    }
    for (const EncodedBias& bias : encoding_.biases) write_bias(bias);
    return assemble();
  }

 private:
  // How Q and DQ are written: names of initializers, and what their attributes say.
  struct Linear {
    std::string scale, zero_point;
    const QuantParams& params;
  };

  // A tensor's parameters; those that are its own become initializers.
  Linear linear(const EncodedTensor& tensor, const std::vector<int64_t>& dims = {}) {
    const auto& [owner, converted] = tensor.owner;
    if (owner == tensor.name) return add_params(tensor.name, tensor.params, dims, tensor.float_type, "");
    const char* suffix = converted ? "_convert" : "";
    return {named(owner + "_scale" + suffix), named(owner + "_zero_point" + suffix), tensor.params};
  }

  void write_weight(const EncodedTensor& tensor) {
    const std::string& name = tensor.name;
    Linear q = linear(tensor, scale_dims(tensor.params, view_.initializers.at(name)->dims()));
    std::string output = named(name + "_DequantizeLinear_Output");
    replace_inputs(name, output);
    std::string code = named(name + (tensor.codes ? "_quantized" : "_QuantizeLinear_Output"));
    if (tensor.codes) {
      added_.push_back({code, *tensor.codes});
    } else {
      const std::string read = tensor.inside ? named(name + "_in_range") : name;
      if (tensor.inside) added_.push_back({read, *tensor.inside});
      add_linear("QuantizeLinear", read, code, name + "_QuantizeLinear", q);
    }
    add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear", q);
  }

  // One that a node makes takes what its readers see; an input among the outputs stays what it is.
  bool is_made_output(const std::string& name) const {
    return view_.outputs.contains(name) && edges_.producer(name) != nullptr;
  }

  size_t receiver_count(const std::string& name) const {
    auto it = graph_.receivers.find(name);
    return it == graph_.receivers.end() ? 0 : it->second.size();
  }

  void write_pair(const EncodedTensor& tensor) {
    const std::string& name = tensor.name;
    const Linear q = linear(tensor);
    std::string input = name, output = named(name + "_DequantizeLinear_Output");
    if (tensor.spares_float_readers) {
      for (const size_t i : graph_.receivers.at(name)) replace_inputs_of(i, name, output);
    } else if (is_made_output(name)) {
      input = named(name + "_QuantizeLinear_Input");
      output = name;
      replace_outputs(name, input);
    } else {
      replace_inputs(name, output);
    }
    add_pair(name, input, output, "", q);
  }

  // A pair for every edge to a quantized node; a node that reads the tensor twice leaves the second one unread.
  void write_dedicated_pairs(const EncodedTensor& tensor) {
    const std::string& name = tensor.name;
    const Linear q = linear(tensor);
    size_t k = 0;
    for (size_t i : graph_.receivers.at(name)) {
      std::string suffix = fmt::format("_{}", ++k);
      std::string output = named(name + "_DequantizeLinear_Output" + suffix);
      add_pair(name, name, output, suffix, q);
      replace_inputs_of(i, name, output);
    }
  }

  void add_pair(const std::string& name, const std::string& input, const std::string& output, const std::string& suffix,
                const Linear& q) {
    std::string code = named(name + "_QuantizeLinear_Output" + suffix);
    add_linear("QuantizeLinear", input, code, name + "_QuantizeLinear" + suffix, q);
    add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear" + suffix, q);
  }

  // producer -> Q -> DQ -> readers of the original type
  //               -> DQ' -> Q2 -> DQ2 -> readers of the converted type; DQ' is DQ where nobody reads the original.
  void write_converted(const EncodedTensor& tensor) {
    const std::string& name = tensor.name;
    const Linear original = linear(tensor);
    const Linear second_form = add_params(name, *tensor.converted, {}, tensor.float_type, "_convert");
    std::unordered_set<std::string> receivers, originals;
    if (auto it = graph_.receivers.find(name); it != graph_.receivers.end())
      for (size_t i : it->second) receivers.insert(nodes_[i].name);
    for (const auto& r : receivers)
      if (!tensor.converted_readers.contains(r)) originals.insert(r);
    bool all = tensor.converted_readers.size() == receivers.size(), is_output = is_made_output(name);
    std::string converted = name + "_convert", input = name, code = named(name + "_QuantizeLinear_Output");
    if (is_output) {
      input = named(name + "_QuantizeLinear_Input");
      replace_outputs(name, input);
    }
    std::string first = is_output && !all ? name : named(name + "_DequantizeLinear_Output");
    add_linear("QuantizeLinear", input, code, name + "_QuantizeLinear", original);
    if (first != name) replace_inputs_by_name(originals, name, first);
    add_linear("DequantizeLinear", code, first, name + "_DequantizeLinear", original);
    std::string between = first;
    if (!all) {
      between = named(converted + "_QuantizeLinear_Input");
      add_linear("DequantizeLinear", code, between, converted + "_clone_DequantizeLinear", original);
    }
    std::string second_code = named(converted + "_QuantizeLinear_Output");
    std::string second = is_output && all ? name : named(converted + "_DequantizeLinear_Output");
    add_linear("QuantizeLinear", between, second_code, converted + "_QuantizeLinear", second_form);
    if (second != name) replace_inputs_by_name(tensor.converted_readers, name, second);
    add_linear("DequantizeLinear", second_code, second, converted + "_DequantizeLinear", second_form);
  }

  void write_bias(const EncodedBias& bias) {
    if (bias.is_float) return;
    dropped_.insert(bias.name);
    const std::string wanted = bias.name + "_quantized", code = named(wanted), scale = named(wanted + "_scale");
    int64_t scales = std::ssize(bias.scale);
    added_.push_back({code, bias.values});
    added_.push_back({scale, scale_tensor(bias.scale, {scales}, bias.float_type)});
    Node node{bias.name + "_DequantizeLinear", "DequantizeLinear", domain_, {code, scale}, {bias.name}, {}, {}};
    if (!bias.is_added) {
      std::vector<int64_t> zero_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
      std::vector<int32_t> zeros(static_cast<size_t>(scales), 0);
      node.inputs.push_back(named(wanted + "_zero_point"));
      added_.push_back({node.inputs.back(), Tensor::from(DataType::kInt32, zero_dims, std::move(zeros))});
    }
    if (scales > 1) node.set_attribute({"axis", int64_t{0}});
    new_nodes_.push_back(std::move(node));
  }

  // --- graph

  // For one name always the same: onnxruntime's own, but where the model has a tensor of that name.
  std::string named(const std::string& wanted) const {
    std::string name = wanted;
    for (int k = 1; taken_.contains(name); ++k) name = fmt::format("{}__{}", wanted, k);
    return name;
  }

  Linear add_params(const std::string& name, const QuantParams& params, const std::vector<int64_t>& dims,
                    DataType float_type, const char* suffix) {
    Linear q{named(name + "_scale" + suffix), named(name + "_zero_point" + suffix), params};
    added_.push_back({q.scale, scale_tensor(params.scale, dims, float_type)});
    added_.push_back({q.zero_point, zero_point_tensor(params, dims)});
    return q;
  }

  void add_linear(const char* op_type, const std::string& input, const std::string& output, const std::string& name,
                  const Linear& q) {
    Node node{name, op_type, domain_, {input, q.scale, q.zero_point}, {output}, {}, {}};
    if (q.params.axis) node.set_attribute({"axis", *q.params.axis});
    if (q.params.block_size > 0) node.set_attribute({"block_size", q.params.block_size});
    new_nodes_.push_back(std::move(node));
  }

  void replace_inputs_of(size_t i, const std::string& from, const std::string& to) {
    std::ranges::replace(nodes_[i].inputs, from, to);
  }

  void replace_inputs_by_name(const std::unordered_set<std::string>& nodes, const std::string& from,
                              const std::string& to) {
    for (const Node* reader : edges_.readers(from))
      if (nodes.contains(reader->name)) replace_inputs_of(edges_.place(*reader), from, to);
  }

  void replace_inputs(const std::string& from, const std::string& to) {
    for (const Node* reader : edges_.readers(from)) replace_inputs_of(edges_.place(*reader), from, to);
  }

  void replace_outputs(const std::string& from, const std::string& to) {
    if (const Node* producer = edges_.producer(from))
      std::ranges::replace(nodes_[edges_.place(*producer)].outputs, from, to);
  }

  Model assemble() {
    Model result = model_;
    Graph& graph = result.graph;
    if (!domain_.empty()) import_contrib_domain(result);
    graph.nodes.clear();
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!graph_.removed[i]) graph.nodes.push_back(std::move(nodes_[i]));
    for (Node& n : new_nodes_) graph.nodes.push_back(std::move(n));
    std::erase_if(graph.initializers, [&](const Initializer& i) { return dropped_.contains(i.name); });
    for (const Initializer& i : graph_.new_initializers)
      if (!dropped_.contains(i.name)) graph.initializers.push_back(i);
    for (Initializer& i : added_) graph.initializers.push_back(std::move(i));
    write_float_biases(graph, encoding_);
    std::erase_if(graph.inputs, [&](const ValueInfo& v) { return dropped_.contains(v.name); });
    if (!options_.add_qdq_pair_to_weight) drop_unused_initializers(graph);
    sort_nodes(graph);
    result.producer_name = "seqto";
    result.producer_version = SEQTO_VERSION;
    return result;
  }

  static void import_contrib_domain(Model& model) {
    std::erase_if(model.opsets, [](const Opset& o) { return o.domain == "com.microsoft"; });
    model.opsets.push_back({"com.microsoft", 1});
  }

  const Model& model_;
  const GraphView& view_;
  const Encoding& encoding_;
  const EncodedGraph& graph_;
  const QuantizeOptions& options_;
  const Edges edges_;                                // as the encoding has them
  std::vector<Node> nodes_;                          // as they are written
  std::unordered_set<std::string> taken_, dropped_;  // tensors of the model; those that go
  std::vector<Node> new_nodes_;
  std::vector<Initializer> added_;
  std::string domain_;  // of Q and DQ
};

}  // namespace

Model write_qdq(const Model& model, const GraphView& view, const Encoding& encoding, const QuantizeOptions& options) {
  return Writer(model, view, encoding, options).run();
}

}  // namespace seqto::internal
