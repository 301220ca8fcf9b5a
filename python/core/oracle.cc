// What seqto.onnxruntime.quantization calls: onnxruntime's own steps, and no others.
#include <nanobind/stl/set.h>

#include "batches.h"
#include "call.h"
#include "module.h"
#include "seqto/improve.h"

namespace seqto::python {
namespace {

// onnxruntime's quantizer asks ONNX for the types of tensors, which knows no operator of com.microsoft; what it has no
// type for stays float.
Model with_shapes_of_onnx(const Model& model) {
  Model hidden = model;
  for (Node& node : hidden.graph.nodes)
    if (node.domain == "com.microsoft") node.domain = "unknown";
  hidden.opsets.push_back({"unknown", 1});
  Model inferred = infer_shapes(hidden);
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) inferred.graph.nodes[i].domain = model.graph.nodes[i].domain;
  inferred.opsets = model.opsets;
  return inferred;
}

Model oracle_model(nb::handle given, int64_t least_opset) {
  const Model model = with_shapes_of_onnx(model_of(given));
  return model.opset() >= least_opset ? model : with_shapes_of_onnx(convert_opset(model, least_opset));
}

// Whether all have one length, but for a shorter one at the end.
bool are_even(std::span<const int64_t> lengths) {
  return lengths.empty() || (std::ranges::all_of(lengths.first(lengths.size() - 1),
                                                 [&](int64_t length) { return length == lengths.front(); }) &&
                             lengths.back() <= lengths.front());
}

// From the average `before` towards the mean of one more call.
void move_from(const Ranges& before, Ranges& mean, float constant) {
  for (auto& [name, range] : mean)
    if (const auto old = before.find(name); old != before.end())
      range = {old->second.lowest + constant * (range.lowest - old->second.lowest),
               old->second.highest + constant * (range.highest - old->second.highest)};
}

// `calls`: the batches of each collect_data(). A moving average is their mean within a call, and moves between calls.
Ranges oracle_ranges(const Model& model, const Batches& data, const std::vector<int64_t>& calls, nb::kwargs keywords) {
  require_as_loaded(model);
  Keywords k("create_calibrator", keywords);
  CalibrateOptions options;
  k.set(options);
  Workbench bench;
  bench.take(k);
  k.refuse_others();
  return call(nb::none(), [&](const Env& env) {
    const auto runner = bench.open(model, env);
    const std::vector<int64_t> samples = all_samples(data);
    if (options.method != CalibrationMethod::kMovingAverage || are_even(calls)) {
      options.chunk_samples = calls.empty() ? 0 : calls.front();
      return calibrate(model, {data, samples, *runner, env}, options);
    }
    Ranges found;
    auto begin = samples.begin();
    for (const int64_t count : calls) {
      Ranges mean = calibrate(model, {data, {begin, begin + count}, *runner, env}, options);
      move_from(found, mean, options.moving_average_constant);
      found = std::move(mean);
      begin += count;
    }
    return found;
  });
}

// The model with smoothed activations, and the nodes to exclude: those that were, and what smoothing added.
std::pair<Model, std::vector<std::string>> oracle_smoothed(const Model& given, const Batches& data, double alpha,
                                                           nb::kwargs keywords) {
  require_as_loaded(given);
  Keywords k("SmoothQuant", keywords);
  QuantizeOptions options;
  k.set(options);
  Workbench bench;
  bench.take(k);
  k.refuse_others();
  return call(nb::none(), [&](const Env& env) {
    Model model = given;
    name_nodes(model);
    const auto runner = bench.open(model, env);
    model = rewrite_for(model, {.smooth = true, .smooth_alpha = alpha}, options, Scheme::kInt8,
                        {data, all_samples(data), *runner, env});
    return std::pair(std::move(model), options.exclude);
  });
}

// And the ids of docs/reference/compatibility.md at which it deviates. Excluded names that are no node have no effect.
std::pair<Model, std::vector<std::string>> oracle_quantize(const Model& model, const Ranges& ranges,
                                                           const std::string& scheme, nb::kwargs keywords) {
  Keywords k("quantize_static", keywords);
  QuantizeOptions options;
  k.set(options);
  k.refuse_others();
  require_as_loaded(model);
  const std::vector<std::string> excluded = std::exchange(options.exclude, {});
  return call(nb::none(), [&](const Env&) {
    Quantizer quantizer(model, ranges, options);
    Model made = quantizer.quantize_excluding(excluded, parse_scheme(scheme));
    return std::pair(std::move(made), quantizer.deviations());
  });
}

// The input that MatMulNBitsQuantizer makes blocks of; "" where the node is of another type.
std::string blocked_input(const Node& node) {
  if (node.op_type == "MatMul" && node.inputs.size() > 1) return node.inputs[1];
  return node.op_type == "Gather" && !node.inputs.empty() ? node.inputs[0] : "";
}

// Blocks of a few bits for constant operands of these op types and nodes.
std::pair<Model, std::vector<std::string>> oracle_blocks(const Model& given, const std::set<std::string>& op_types,
                                                         const std::set<std::string>& include,
                                                         const std::set<std::string>& exclude, nb::kwargs keywords) {
  Keywords k("MatMulNBitsQuantizer", keywords);
  QuantizeOptions options{.compat_onnxruntime = true};
  k.set(options.weight_only);
  k.refuse_others();
  return call(nb::none(), [&](const Env&) {
    const Model model = tunable_form(given, options).model;
    Plan plan;
    for (const Node& node : model.graph.nodes)
      if (!exclude.contains(node.name) && (op_types.contains(node.op_type) || include.contains(node.name)) &&
          model.graph.initializer(blocked_input(node)))
        plan.schemes[node.name] = Scheme::kInt4Weights;
    Quantizer quantizer(model, {}, options);
    Model made = quantizer.quantize(plan);
    return std::pair(std::move(made), quantizer.notes());
  });
}

}  // namespace

void bind_oracle(nb::module_& m) {
  nb::class_<Batches>(m, "Batches", "What calibration readers give, in memory while they are few, then in a file.")
      .def(nb::init<int64_t>(), nb::arg("kept_bytes") = 16 << 20)
      .def(
          "append",
          [](Batches& batches, const Model& model, nb::handle batch) {
            batches.append(batch_of(batch, model.graph.free_inputs()));
          },
          nb::arg("model"), nb::arg("batch"), nb::sig("def append(self, model: Model, batch: typing.Any) -> None"))
      .def("__len__", &Batches::size);
  m.def("oracle_model", &oracle_model, nb::arg("model"), nb::arg("least_opset"),
        nb::sig((std::string("def oracle_model(model: ") + kModel + ", least_opset: int) -> Model").c_str()));
  m.def("oracle_ranges", &oracle_ranges, nb::arg("model"), nb::arg("data"), nb::arg("calls"), nb::arg("keywords"),
        nb::sig("def oracle_ranges(model: Model, data: Batches, calls: collections.abc.Sequence[int], **keywords: "
                "typing.Any) -> Ranges"));
  m.def(
      "oracle_smoothed", &oracle_smoothed, nb::arg("model"), nb::arg("data"), nb::arg("alpha"), nb::arg("keywords"),
      nb::sig("def oracle_smoothed(model: Model, data: Batches, alpha: float, **keywords: typing.Any) -> tuple[Model, "
              "list[str]]"));
  m.def("oracle_quantize", &oracle_quantize, nb::arg("model"), nb::arg("ranges"), nb::arg("scheme"),
        nb::arg("keywords"),
        nb::sig("def oracle_quantize(model: Model, ranges: Ranges, scheme: str, **keywords: typing.Any) -> "
                "tuple[Model, list[str]]"));
  m.def("oracle_blocks", &oracle_blocks, nb::arg("model"), nb::arg("op_types"), nb::arg("include"), nb::arg("exclude"),
        nb::arg("keywords"),
        nb::sig("def oracle_blocks(model: Model, op_types: set[str], include: set[str], exclude: set[str], **keywords: "
                "typing.Any) -> tuple[Model, list[str]]"));
}

}  // namespace seqto::python
