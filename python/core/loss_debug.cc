// What seqto.onnxruntime.quantization.qdq_loss_debug calls.
#include <nanobind/stl/set.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "module.h"
#include "seqto/prepare.h"

namespace seqto::python {
namespace {

constexpr char kSaved[] = "_ReshapedSavedOutput", kShape[] = "LinearReshape";

// The model with an output more for each float tensor that nodes of these op types (none: any) read or write: its
// values in one row.
Model with_saved_tensors(Model model, const std::set<std::string>& op_types) {
  Graph& graph = model.graph;
  std::map<std::string, DataType> types;
  for (const auto* list : {&graph.value_info, &graph.outputs, &graph.inputs})
    for (const ValueInfo& v : *list)
      if (v.type == DataType::kFloat || v.type == DataType::kFloat16) types[v.name] = v.type;
  for (const Initializer& i : graph.initializers) types.erase(i.name);
  std::set<std::string> tensors;
  for (const Node& node : graph.nodes) {
    if (!op_types.empty() && !op_types.contains(node.op_type)) continue;
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const std::string& name : *names)
        if (types.contains(name)) tensors.insert(name);
  }
  graph.initializers.push_back({kShape, int64_tensor({1}, {-1})});
  for (const std::string& name : tensors) {
    graph.nodes.push_back({name + kSaved, "Reshape", "", {name, kShape}, {name + kSaved}, {}, {}});
    graph.outputs.push_back({.name = name + kSaved, .type = types[name], .shape = std::vector{Dimension{}}});
  }
  return model;
}

// The constants that a quantized model holds in integers: name, values in the float model, what the integers stand for.
std::vector<std::tuple<std::string, nb::object, nb::object>> weight_pairs(const Model& original,
                                                                          const Model& quantized) {
  std::vector<std::tuple<std::string, nb::object, nb::object>> pairs;
  const Model twin = dequantize(quantized).model;
  for (const Initializer& i : twin.graph.initializers) {
    const Tensor* before = original.graph.initializer(i.name);
    if (before && before->is_float() && before->dims() == i.tensor.dims() && !quantized.graph.initializer(i.name))
      pairs.emplace_back(i.name, to_numpy(*before), to_numpy(i.tensor));
  }
  return pairs;
}

// dB, 20 log10(|x| / |x - y|).
double noise_ratio(const nb::list& xs, const nb::list& ys) {
  if (xs.size() != ys.size()) throw std::runtime_error("Unequal number of tensors to compare!");
  double squares = 0, differences = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor x = tensor_of(xs[i], DataType::kDouble, false, "x");
    const Tensor y = tensor_of(ys[i], DataType::kDouble, false, "y");
    const auto a = x.values<double>(), b = y.values<double>();
    if (a.size() != b.size()) throw std::runtime_error("Unequal sizes of tensors to compare!");
    for (size_t k = 0; k < a.size(); ++k) {
      squares += a[k] * a[k];
      differences += (a[k] - b[k]) * (a[k] - b[k]);
    }
  }
  const double least = std::numeric_limits<double>::epsilon();
  return 20 * std::log10(std::max(std::sqrt(squares), least) / std::max(std::sqrt(differences), least));
}

}  // namespace

void bind_loss_debug(nb::module_& m) {
  m.def("debug_saved_tensors", &with_saved_tensors, nb::arg("model"), nb::arg("op_types"),
        nb::sig("def debug_saved_tensors(model: Model, op_types: set[str]) -> Model"));
  m.def("debug_weight_pairs", &weight_pairs, nb::arg("original"), nb::arg("quantized"),
        nb::sig("def debug_weight_pairs(original: Model, quantized: Model) -> list[tuple[str, numpy.ndarray, "
                "numpy.ndarray]]"));
  m.def("debug_noise_ratio", &noise_ratio, nb::arg("x"), nb::arg("y"),
        nb::sig("def debug_noise_ratio(x: list[numpy.ndarray], y: list[numpy.ndarray]) -> float"));
}

}  // namespace seqto::python
