// Model, Layer, Plan and Ranges.
#include <nanobind/make_iterator.h>
#include <fstream>
#include <sstream>

#include "module.h"
#include "seqto/error.h"
#include "seqto/plan.h"

namespace seqto::python {
namespace {

nb::object shape_of(const ValueInfo& value) {
  if (!value.shape) return nb::none();
  nb::list dims;
  for (const Dimension& d : *value.shape) {
    if (d.value >= 0) dims.append(d.value);
    else if (!d.parameter.empty()) dims.append(d.parameter);
    else dims.append(nb::none());
  }
  return nb::tuple(dims);
}

nb::bytes bytes_of(const Model& model) {
  require_as_loaded(model);
  const std::string text = serialize(model);
  return nb::bytes(text.data(), text.size());
}

nb::object to_onnx(const Model& model) {
  constexpr int64_t kMostBytes = int64_t{1} << 31;
  if (const int64_t bytes = serialized_size(model); bytes >= kMostBytes)
    throw Error(Code::kInvalidInput, "[to_onnx] a model of " + std::to_string(bytes) +
                                         " bytes found; less than 2 GB expected, which protobuf reads; save() it and "
                                         "onnx.load() the file");
  return nb::module_::import_("onnx").attr("load_from_string")(bytes_of(model));
}

bool are_equal(const Model& a, const Model& b) {
  require_as_loaded(a);
  require_as_loaded(b);
  return equal(a, b);
}

// Shapes may follow from values of constants.
std::vector<Layer> layers_of(const Model& model) {
  require_as_loaded(model);
  return layers(infer_shapes(model));
}

nb::object initializer(const Model& model, const std::string& name) {
  require_as_loaded(model);
  const Tensor* tensor = model.graph.initializer(name);
  if (!tensor) throw nb::key_error(name.c_str());
  return to_numpy(*tensor);
}

std::string describe(const Model& model) {
  return "<seqto.Model: opset " + std::to_string(model.opset()) + ", " + std::to_string(model.graph.nodes.size()) +
         " nodes, " + std::to_string(serialized_size(model)) + " bytes>";
}

void bind_values(nb::module_& m) {
  nb::class_<ValueInfo>(m, "ValueInfo", "An input or output of a model.")
      .def_ro("name", &ValueInfo::name)
      .def_prop_ro(
          "type", [](const ValueInfo& v) { return std::string(to_string(v.type)); }, "as numpy calls it: float32 ...")
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int | str | None, ...] | None"),
                   "Sizes, names of symbolic ones, None for what is open; None: not known.")
      .def("__repr__", [](const ValueInfo& v) {
        return v.name + ": " + std::string(to_string(v.type)) + nb::cast<std::string>(nb::repr(shape_of(v)));
      });
  nb::class_<Layer>(m, "Layer", "A node that the quantizer may touch.")
      .def_ro("id", &Layer::id, "name of the node")
      .def_ro("op_type", &Layer::op_type)
      .def_ro("output_shape", &Layer::output_shape, "-1 where unknown; empty: unknown or scalar")
      .def_ro("weight_bytes", &Layer::weight_bytes, "of its constant float inputs")
      .def_ro("quantizable", &Layer::quantizable, "statically")
      .def_prop_ro(
          "schemes",
          [](const Layer& l) {
            std::vector<std::string> names;
            for (Scheme s : l.schemes) names.emplace_back(to_string(s));
            return names;
          },
          "all that can be written for it, float32 first")
      .def_ro("reason", &Layer::reason, "why not, where it is not quantizable");
}

void bind_models(nb::module_& m) {
  nb::class_<Model>(m, "Model", "An ONNX model. It never changes: verbs return new ones, which share its weights.")
      .def_prop_ro("opset", &Model::opset, "of ai.onnx")
      .def_prop_ro(
          "inputs", [](const Model& model) { return model.graph.free_inputs(); }, "what data have to give")
      .def_prop_ro("outputs", [](const Model& model) { return model.graph.outputs; })
      .def_prop_ro("size_bytes", &serialized_size, "of its file")
      .def_ro("external_files", &Model::external_files, "where weights are that its file does not hold")
      .def("layers", &layers_of, "Every node, in graph order.")
      .def("initializer", &initializer, nb::arg("name"), nb::sig("def initializer(self, name: str) -> numpy.ndarray"),
           "The values of a weight, shared and read-only. KeyError where there is none of that name.")
      .def("save", &save_as_loaded, nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
           "Writes the file, whole or not at all. Weights above 2 GB go to PATH.data.")
      .def("to_onnx", &to_onnx, nb::sig("def to_onnx(self) -> typing.Any"),
           "An onnx.ModelProto; needs the package onnx.")
      .def("__bytes__", &bytes_of)
      .def("__eq__", &are_equal, nb::arg("other"), nb::sig("def __eq__(self, other: object, /) -> bool"),
           nb::is_operator())
      .def(
          "__hash__",
          [](const Model&) -> int64_t {
            throw nb::type_error("unhashable: models are equal by all their weights; a name or id(model) expected");
          },
          nb::sig("def __hash__(self) -> typing.NoReturn"))
      .def("__repr__", &describe);
  m.def("load", &model_of, nb::arg("model"), nb::sig((std::string("def load(model: ") + kModel + ") -> Model").c_str()),
        "Reads a model: a path, the bytes of a ModelProto, or an onnx.ModelProto. Big weights of a file are mapped, "
        "not read.");
}

// --- plans

Plan plan_of(nb::handle schemes) {
  nb::dict text;
  text["schema_version"] = 1;
  nb::dict entries;
  set_pairs(schemes, [&](nb::handle layer, nb::handle scheme) {
    if (!nb::isinstance<nb::str>(scheme)) return void(entries[layer] = scheme);
    const DetailedScheme detailed = parse_detailed_scheme(nb::cast<std::string>(scheme));
    nb::object entry = from_json(layer_options_to_json(detailed.fields));
    entry["scheme"] = std::string(to_string(detailed.scheme));
    entries[layer] = entry;
  });
  text["schemes"] = entries;
  return plan_from_json(to_json(text));
}

nb::dict schemes_of(const Plan& plan) {
  nb::dict schemes;
  for (const auto& [layer, scheme] : plan.schemes) schemes[layer.c_str()] = to_string(detailed_scheme(plan, layer));
  return schemes;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    throw Error(Code::kInvalidInput, "[plan] " + path.string() + " cannot be read; an existing file expected");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void save_plan(const Plan& plan, const std::filesystem::path& path) {
  std::ofstream file(path);
  file << plan_to_json(plan);
  file.close();
  if (!file)
    throw Error(Code::kInvalidInput, "[plan] " + path.string() +
                                         " cannot be written; a name in a folder that is "
                                         "there and can be written expected");
}

void bind_plans(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "Which layer gets which scheme. Layers that are absent stay float32.")
      .def(
          "__init__", [](Plan* self, nb::handle schemes) { new (self) Plan(plan_of(schemes)); },
          nb::arg("schemes") = nb::dict(),
          nb::sig("def __init__(self, schemes: collections.abc.Mapping[str, str | collections.abc.Mapping[str, "
                  "typing.Any]] = {}) -> None"),
          "Layers and schemes: 'int8', with fields 'int8+per_channel=false', or {'scheme': 'int8', 'per_channel': "
          "False}.")
      .def_prop_ro("schemes", &schemes_of, nb::sig("def schemes(self) -> dict[str, str]"))
      .def_prop_ro("hash", &Plan::hash, "16 hex digits; equal plans have equal hashes")
      .def("to_json", &plan_to_json, "As `seqto quantize --plan` reads it.")
      .def_static("from_json", &plan_from_json, nb::arg("text"))
      .def_static(
          "load", [](const std::filesystem::path& path) { return plan_from_json(text_of(path)); }, nb::arg("path"),
          nb::sig("def load(path: str | os.PathLike[str]) -> Plan"))
      .def("save", &save_plan, nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"))
      .def("__len__", [](const Plan& plan) { return plan.schemes.size(); })
      .def(
          "__eq__", [](const Plan& a, const Plan& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Plan& plan) { return std::hash<std::string>()(plan.hash()); })
      .def("__repr__",
           [](const Plan& plan) { return "<seqto.Plan of " + std::to_string(plan.schemes.size()) + " layers>"; });
  m.def(
      "uniform_plan",
      [](nb::handle model, const std::string& scheme, const std::vector<std::string>& exclude) {
        const Model prepared = quantizable_form(model_of(model), {}).model;
        return uniform_plan(prepared, parse_detailed_scheme(scheme), expand_patterns(exclude, prepared));
      },
      nb::arg("model"), nb::arg("scheme"), nb::arg("exclude") = std::vector<std::string>(),
      nb::sig((std::string("def uniform_plan(model: ") + kModel +
               ", scheme: str, exclude: collections.abc.Sequence[str] = ()) -> Plan")
                  .c_str()),
      "Every layer that can be written in the scheme, except the excluded: names, globs or op:TYPE.");
}

// --- ranges

nb::tuple bounds(const Ranges& ranges, const std::string& tensor) {
  const auto found = ranges.find(tensor);
  if (found == ranges.end()) throw nb::key_error(tensor.c_str());
  return nb::make_tuple(found->second.lowest, found->second.highest);
}

// As onnxruntime's TensorData calls them.
nb::dict statistics(const Ranges& ranges, const std::string& tensor) {
  const auto found = ranges.find(tensor);
  if (found == ranges.end()) throw nb::key_error(tensor.c_str());
  const Range& range = found->second;
  nb::dict dict;
  const auto set = [&](const char* name, const std::vector<float>& values, std::vector<int64_t> dims) {
    dict[name] = to_numpy(float_tensor(std::move(dims), values));
  };
  set("lowest", {range.lowest}, {}), set("highest", {range.highest}, {});
  if (range.avg) set("avg", {*range.avg}, {});
  if (range.std) set("std", {*range.std}, {});
  if (range.histogram) {
    const auto& [counts, edges] = *range.histogram;
    dict["hist"] = to_numpy(int64_tensor({std::ssize(counts)}, counts));
    set(range.avg ? "hist_edges" : "bins", edges, {std::ssize(edges)});
  }
  return dict;
}

nb::list names_of(const Ranges& ranges) {
  std::vector<std::string> names;
  for (const auto& [name, range] : ranges) names.push_back(name);
  std::sort(names.begin(), names.end());
  nb::list list;
  for (const std::string& name : names) list.append(name);
  return list;
}

void bind_ranges(nb::module_& m) {
  nb::class_<Ranges>(m, "Ranges", "What a calibration saw: the lowest and highest value of each tensor, by its name.")
      .def(nb::init<>())
      .def("__getitem__", &bounds, nb::arg("tensor"),
           nb::sig("def __getitem__(self, tensor: str, /) -> tuple[float, float]"))
      .def(
          "__contains__", [](const Ranges& r, const std::string& name) { return r.contains(name); }, nb::arg("tensor"))
      .def("__len__", [](const Ranges& ranges) { return ranges.size(); })
      .def(
          "__iter__", [](const Ranges& ranges) { return nb::iter(names_of(ranges)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("statistics", &statistics, nb::arg("tensor"),
           nb::sig("def statistics(self, tensor: str) -> dict[str, numpy.ndarray]"),
           "All that is known of one tensor: lowest, highest, and of the methods that have them avg, std, hist and its "
           "edges.")
      .def("keys", &names_of, nb::sig("def keys(self) -> list[str]"))
      .def(
          "set", [](Ranges& r, const std::string& name, float lowest, float highest) { r[name] = {lowest, highest}; },
          nb::arg("tensor"), nb::arg("lowest"), nb::arg("highest"), "Sets the range of one tensor.")
      .def(
          "save",
          [](const Ranges& r, const std::filesystem::path& path, const std::string& method) {
            save_ranges(r, path, parse_calibration_method(method));
          },
          nb::arg("path"), nb::arg("method") = "minmax",
          nb::sig("def save(self, path: str | os.PathLike[str], method: str = 'minmax') -> None"),
          "Writes onnxruntime's calibration cache.")
      .def(
          "save_tensorrt",
          [](const Ranges& r, const std::filesystem::path& prefix, const std::string& method) {
            save_tensorrt_tables(r, prefix, parse_calibration_method(method));
          },
          nb::arg("prefix"), nb::arg("method") = "minmax",
          nb::sig("def save_tensorrt(self, prefix: str | os.PathLike[str], method: str = 'minmax') -> None"),
          "Writes TensorRT's tables: PREFIX.json, .flatbuffers and .cache.")
      .def_static("load", &load_ranges, nb::arg("path"), nb::sig("def load(path: str | os.PathLike[str]) -> Ranges"),
                  "Reads one, of either program.")
      .def("__repr__", [](const Ranges& r) { return "<seqto.Ranges of " + std::to_string(r.size()) + " tensors>"; });
}

}  // namespace

void bind_model(nb::module_& m) {
  bind_values(m);
  bind_models(m);
  bind_plans(m);
  bind_ranges(m);
}

}  // namespace seqto::python
