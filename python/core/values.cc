#include "values.h"

#include <nanobind/ndarray.h>

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

}  // namespace

bool is_path(nb::handle given) { return nb::isinstance<nb::str>(given) || nb::hasattr(given, "__fspath__"); }

std::filesystem::path path_of(nb::handle given) { return nb::cast<std::filesystem::path>(given); }

Model model_of(nb::handle given) {
  if (nb::isinstance<Model>(given)) return nb::cast<const Model&>(given);
  if (is_path(given)) return load_model(path_of(given));
  nb::object bytes = nb::borrow(given);
  if (nb::hasattr(given, "SerializeToString")) bytes = given.attr("SerializeToString")();
  if (!nb::isinstance<nb::bytes>(bytes))
    throw nb::type_error("a seqto.Model, a path, the bytes of a model or an onnx.ModelProto expected");
  const auto text = nb::borrow<nb::bytes>(bytes);
  return parse_model({text.c_str(), text.size()});
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

Tensor tensor_of(nb::handle given, DataType type, bool copy) {
  const std::string name = numpy_name(type);
  if (name.empty())
    throw Error(Code::kInvalidInput,
                "[data] an input of type " + std::string(to_string(type)) + " found, which numpy does not have");
  nb::object array = nb::borrow(given);
  if (nb::hasattr(array, "detach")) array = array.attr("detach")().attr("cpu")();  // torch
  array = numpy("asarray")(array);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const bool whole = name.find("int") != std::string::npos || name == "bool";
  if ((kind == "f" && whole) || kind == "O" || kind == "c")
    throw Error(Code::kInvalidInput, "[data] an array of " + nb::cast<std::string>(nb::str(array.attr("dtype"))) +
                                         " found; the model's input is of " + name);
  array = numpy("array")(array, nb::arg("dtype") = name, nb::arg("order") = "C",
                         nb::arg("copy") = copy ? nb::object(nb::bool_(true)) : nb::object(nb::none()));
  std::vector<int64_t> dims;
  for (nb::handle d : nb::borrow<nb::iterable>(array.attr("shape"))) dims.push_back(nb::cast<int64_t>(d));
  auto buffer = std::make_shared<const Buffer>(array);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer->view.buf),
                                         static_cast<size_t>(buffer->view.len));
  return Tensor(type, std::move(dims), std::move(buffer), bytes);
}

}  // namespace seqto::python
