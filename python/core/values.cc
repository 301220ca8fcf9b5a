#include "values.h"

#include <nanobind/ndarray.h>
#include <sys/stat.h>

#include <set>

#include "seqto/error.h"

namespace seqto::python {
namespace {

// numpy's names; empty: it has no such type.
std::string numpy_name(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "float32";
    case DataType::kDouble:
      return "float64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBool:
      return "bool";
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kUint16:
    case DataType::kInt16:
    case DataType::kUint32:
    case DataType::kInt32:
    case DataType::kUint64:
    case DataType::kInt64:
      return std::string(to_string(type));
    default:
      return "";
  }
}

nb::object numpy(const char* function) { return nb::module_::import_("numpy").attr(function); }

// The buffer of an array, for as long as a tensor lives: it may be given back by any thread.
struct Buffer {
  Py_buffer view{};
  explicit Buffer(nb::handle array) {
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  }
  ~Buffer() {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire gil;
    PyBuffer_Release(&view);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

std::string kind_of(nb::handle given) { return nb::cast<std::string>(given.type().attr("__name__")); }

// onnx's other messages can be serialized too: a graph alone is no model.
bool is_proto(nb::handle given) { return nb::hasattr(given, "SerializeToString") && nb::hasattr(given, "graph"); }

// protobuf has errors of several types for what it cannot write.
nb::object serialized(nb::handle proto) {
  try {
    return proto.attr("SerializeToString")();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    throw Error(Code::kInvalidInput, "[load] an onnx.ModelProto that protobuf cannot write found: " +
                                         nb::cast<std::string>(nb::str(error.value())) +
                                         "; one of less than 2 GB expected; save it with onnx.save_model(..., "
                                         "save_as_external_data=True) and give the path");
  }
}

// A cast wraps whole numbers around where they do not fit.
void require_in_bounds(nb::handle array, const std::string& type, const std::string& use) {
  if (type.find("int") == std::string::npos || nb::cast<int64_t>(array.attr("size")) == 0 ||
      nb::cast<bool>(numpy("can_cast")(array.attr("dtype"), type)))
    return;
  const nb::object bounds = numpy("iinfo")(type), lowest = bounds.attr("min"), highest = bounds.attr("max");
  for (const nb::object& end : {array.attr("min")(), array.attr("max")()}) {
    const nb::object value = nb::int_(end);
    if (lowest <= value && value <= highest) continue;
    const auto text = [](const nb::object& number) { return nb::cast<std::string>(nb::str(number)); };
    throw Error(Code::kInvalidInput, "[data] " + text(value) + " found for " + use + "; " + text(lowest) + " to " +
                                         text(highest) + " expected, which " + type + " holds");
  }
}

// A file that weights are mapped from, as it was when it was opened.
struct Source {
  std::filesystem::path path;
  struct stat was{};

  explicit Source(const std::filesystem::path& file) : path(std::filesystem::absolute(file)) {
    if (::stat(path.c_str(), &was) != 0) was.st_ino = 0;
  }
  // A file put in its place leaves what is mapped as it was.
  bool changed() const {
    struct stat now{};
    return ::stat(path.c_str(), &now) == 0 && now.st_dev == was.st_dev && now.st_ino == was.st_ino &&
           (now.st_size != was.st_size || now.st_mtim.tv_sec != was.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != was.st_mtim.tv_nsec);
  }
};

// By the mapped values of their tensors, which models made of them share. Guarded by the interpreter's lock.
using Sources = std::map<std::weak_ptr<const void>, std::shared_ptr<const std::vector<Source>>, std::owner_less<>>;
Sources& sources() {
  static Sources all;
  return all;
}

template <class F>
void for_each_tensor(const Model& model, F&& take) {
  for (const Initializer& i : model.graph.initializers) take(i.tensor);
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (const auto* tensor = std::get_if<Tensor>(&a.value)) take(*tensor);
}

// What is mapped is owned as MappedValues; what is on the heap outlives its file.
bool is_mapped(const Tensor& tensor) {
  return std::get_deleter<std::default_delete<const internal::MappedValues>>(tensor.lifetime().lock()) != nullptr;
}

void remember(const Model& model, const std::filesystem::path& path) {
  auto files = std::make_shared<std::vector<Source>>(1, Source(path));
  for (const std::filesystem::path& file : model.external_files) files->emplace_back(file);
  std::erase_if(sources(), [](const auto& entry) { return entry.first.expired(); });
  for_each_tensor(model, [&](const Tensor& tensor) {
    if (is_mapped(tensor)) sources().insert_or_assign(tensor.lifetime(), files);
  });
}

// numpy's own conversions; what it refuses is told in its words.
template <class... Arguments>
nb::object array_by(const char* function, const std::string& use, Arguments&&... arguments) {
  try {
    return numpy(function)(std::forward<Arguments>(arguments)...);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    throw Error(Code::kInvalidInput, "[data] no array of numbers found for " + use + ": " +
                                         nb::cast<std::string>(nb::str(error.value())) + "; one expected");
  }
}

}  // namespace

bool is_path(nb::handle given) { return nb::isinstance<nb::str>(given) || nb::hasattr(given, "__fspath__"); }

std::filesystem::path path_of(nb::handle given) { return nb::cast<std::filesystem::path>(given); }

bool is_model(nb::handle given) {
  return nb::isinstance<Model>(given) || is_path(given) || nb::isinstance<nb::bytes>(given) || is_proto(given);
}

void require_as_loaded(const Model& model) {
  std::set<std::shared_ptr<const std::vector<Source>>> read;
  for_each_tensor(model, [&](const Tensor& tensor) {
    if (const auto found = sources().find(tensor.lifetime()); found != sources().end()) read.insert(found->second);
  });
  for (const auto& files : read)
    for (const Source& file : *files)
      if (file.changed())
        throw Error(Code::kInvalidInput, "[load] " + file.path.string() +
                                             " found written again after a model was loaded from it; the same file "
                                             "expected; load the model again");
}

void save_as_loaded(const Model& model, const std::filesystem::path& path) {
  require_as_loaded(model);
  nb::gil_scoped_release interpreter;
  save_model(model, path);
}

Model model_of(nb::handle given) {
  if (nb::isinstance<Model>(given)) {
    const auto& model = nb::cast<const Model&>(given);
    require_as_loaded(model);
    return model;
  }
  if (is_path(given)) {
    Model model = load_model(path_of(given));
    remember(model, path_of(given));
    return model;
  }
  if (!is_model(given))
    throw nb::type_error((kind_of(given) + " found; a seqto.Model, a path, the bytes of a model or an onnx.ModelProto "
                                           "expected")
                             .c_str());
  const nb::object bytes = is_proto(given) ? serialized(given) : nb::borrow(given);
  const auto text = nb::borrow<nb::bytes>(bytes);
  return parse_model({text.c_str(), text.size()});
}

nb::iterable list_of(nb::handle given, const std::string& what) {
  if (nb::isinstance<nb::str>(given)) throw nb::type_error((what + "a list expected, not a string").c_str());
  if (nb::isinstance<nb::bytes>(given) || !nb::hasattr(given, "__iter__"))
    throw nb::type_error((what + kind_of(given) + " found; a list expected").c_str());
  return nb::borrow<nb::iterable>(given);
}

nb::object from_json(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

std::string to_json(nb::handle value) {
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value));
}

nb::object to_numpy(const Tensor& tensor) {
  const std::string name = numpy_name(tensor.type());
  if (name.empty())
    throw Error(Code::kInvalidInput, "[numpy] a tensor of " + std::string(to_string(tensor.type())) +
                                         " found, a type that numpy does not have");
  auto* kept = new Tensor(tensor.aligned());
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const std::vector<size_t> shape(tensor.dims().begin(), tensor.dims().end());
  const auto code = name == "bool"              ? nb::dlpack::dtype_code::Bool
                    : name.starts_with("float") ? nb::dlpack::dtype_code::Float
                    : name.starts_with("uint")  ? nb::dlpack::dtype_code::UInt
                                                : nb::dlpack::dtype_code::Int;
  const nb::dlpack::dtype type{static_cast<uint8_t>(code), static_cast<uint8_t>(element_bits(tensor.type())), 1};
  return nb::cast(
      nb::ndarray<nb::numpy, nb::ro>(kept->bytes().data(), shape.size(), shape.data(), owner, nullptr, type));
}

Tensor tensor_of(nb::handle given, DataType type, bool copy, const std::string& use) {
  const std::string name = numpy_name(type);
  if (name.empty())
    throw Error(Code::kInvalidInput,
                "[data] " + use + " of type " + std::string(to_string(type)) + " found, which numpy does not have");
  nb::object array = nb::borrow(given);
  if (nb::hasattr(array, "detach")) array = array.attr("detach")().attr("cpu")();  // torch
  array = array_by("asarray", use, array);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const bool whole = name.find("int") != std::string::npos || name == "bool";
  constexpr std::string_view kNoNumbers = "OSUTMmc";  // objects, texts, times and complex numbers
  if ((kind == "f" && whole) || kNoNumbers.find(kind) != std::string_view::npos)
    throw Error(Code::kInvalidInput, "[data] an array of " + nb::cast<std::string>(array.attr("dtype").attr("name")) +
                                         " found for " + use + "; one of " + name + " expected");
  require_in_bounds(array, name, use);
  array = array_by("array", use, array, nb::arg("dtype") = name, nb::arg("order") = "C",
                   nb::arg("copy") = copy ? nb::object(nb::bool_(true)) : nb::object(nb::none()));
  std::vector<int64_t> dims;
  for (nb::handle d : nb::borrow<nb::iterable>(array.attr("shape"))) dims.push_back(nb::cast<int64_t>(d));
  auto buffer = std::make_shared<const Buffer>(array);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer->view.buf),
                                         static_cast<size_t>(buffer->view.len));
  return Tensor(type, std::move(dims), std::move(buffer), bytes);
}

}  // namespace seqto::python
