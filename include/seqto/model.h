// Room: model. An ONNX model as plain values: load, check, prepare, inspect, save.
//
// The graph is ours, not protobuf's: copying a Model copies names and edges, never weights
// (tensors share their bytes). Everything of the file that is not understood here (functions,
// training info, type annotations) is carried along and written back unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace seqto {
namespace internal {
class MappedValues;
}

// The numbers are from ONNX's TensorProto.DataType.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kFloat8e4m3fn = 17,
  kUint4 = 21,
  kInt4 = 22,
};
std::string_view to_string(DataType type);        // "float32", "int8" ...
DataType parse_data_type(std::string_view name);  // throws Error{kUsage}
size_t element_bits(DataType type);               // 32, 8, 4 ...; 0 for strings

// A dense tensor: little-endian bytes in C order, shared and immutable. Weights of a file stay in the file, mapped into
// memory, until they are read.
// Strings are kept as ONNX's own serialized TensorProto (bytes() is not element data then).
class Tensor {
 public:
  Tensor() = default;
  Tensor(DataType type, std::vector<int64_t> dims, std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : type_(type), dims_(std::move(dims)), owner_(std::move(owner)), bytes_(bytes) {}

  // A tensor in a mapped file, at any address.
  static Tensor in_file(DataType type, std::vector<int64_t> dims, std::shared_ptr<const internal::MappedValues> file,
                        std::span<const std::byte> bytes);

  // Takes the values over; `values.size()` is the product of dims.
  template <class T>
  static Tensor from(DataType type, std::vector<int64_t> dims, std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    auto bytes = std::as_bytes(std::span<const T>(*owner));
    return Tensor(type, std::move(dims), std::move(owner), bytes);
  }

  DataType type() const { return type_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  // At any address: a file puts them where it likes. Use values() or aligned() for elements.
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t element_count() const;
  bool is_float() const { return type_ == DataType::kFloat || type_ == DataType::kFloat16; }

  // The elements; T must have the element's size. Data is aligned for T. Where a file has it at an odd address, this
  // costs a copy, made once for all copies of this tensor and kept as long as they live.
  template <class T>
  std::span<const T> values() const {
    auto bytes = aligned_bytes(alignof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // The same tensor with bytes() aligned for its elements, as a runtime needs that takes weights from memory.
  Tensor aligned() const;
  // The same bytes under another shape of equal element count.
  Tensor reshaped(std::vector<int64_t> dims) const;
  // Has the system read a file's bytes at once, and no others around them. Does nothing to other tensors.
  void fetch() const;
  // Gives the memory of a file's bytes back to the system, which reads them again when they are needed: for weights
  // that have been quantized. Does nothing to other tensors; the value stays the same.
  void release() const;
  // The same, and out of the system's cache of the file: for weights that are not read again.
  void drop() const;
  // Expires when nobody shares the bytes any more: until then their address and size say which bytes they are.
  std::weak_ptr<const void> lifetime() const { return file_ ? std::weak_ptr<const void>(file_) : owner_; }
  // True when type, dims and bytes are equal.
  bool equals(const Tensor& other) const;

 private:
  DataType type_ = DataType::kUndefined;
  std::vector<int64_t> dims_;
  std::span<const std::byte> aligned_bytes(size_t alignment) const {
    bool fits = reinterpret_cast<uintptr_t>(bytes_.data()) % alignment == 0;
    return fits || !file_ ? bytes_ : aligned_copy();
  }
  std::span<const std::byte> aligned_copy() const;

  std::shared_ptr<const void> owner_;
  std::shared_ptr<const internal::MappedValues> file_;  // set: the bytes lie in a mapped file
  std::span<const std::byte> bytes_;
};

Tensor float_tensor(std::vector<int64_t> dims, std::vector<float> values);
Tensor int64_tensor(std::vector<int64_t> dims, std::vector<int64_t> values);
// Element as double; any numeric type.
double element(const Tensor& tensor, int64_t index);

// A subgraph, sparse tensor or type: kept as serialized AttributeProto, with the outer tensors it reads.
struct OpaqueAttribute {
  std::string proto;
  std::vector<std::string> captures;
};

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>, Tensor,
               OpaqueAttribute>
      value;
};

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;               // "" is ai.onnx
  std::vector<std::string> inputs;  // "" where an optional input is absent
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
  std::string rest;  // serialized NodeProto of the fields not named above (doc string ...)

  const Attribute* attribute(std::string_view name) const;
  int64_t int_attribute(std::string_view name, int64_t otherwise) const;
  float float_attribute(std::string_view name, float otherwise) const;
  std::string string_attribute(std::string_view name, std::string otherwise) const;
  void set_attribute(Attribute attribute);  // replaces one of the same name
};

struct Dimension {
  int64_t value = -1;     // -1: not known
  std::string parameter;  // symbolic name, may be empty
};

struct ValueInfo {
  std::string name;
  DataType type = DataType::kUndefined;  // kUndefined: unknown or not a tensor
  std::optional<std::vector<Dimension>> shape;
  std::string proto;  // the ValueInfoProto as read, where it says more than the fields above
};

struct Initializer {
  std::string name;
  Tensor tensor;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs, outputs, value_info;
  std::vector<Initializer> initializers;

  const Tensor* initializer(std::string_view name) const;  // linear; build an index for many look-ups
  std::vector<ValueInfo> free_inputs() const;  // the inputs that are not initializers: what data have to give
};

struct Opset {
  std::string domain;
  int64_t version = 0;
};

struct Model {
  int64_t ir_version = 8;  // 4 and more: in older files initializers are inputs, which are left out as they are read
  std::vector<Opset> opsets;
  Graph graph;
  std::string producer_name, producer_version;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::filesystem::path> external_files;  // where weights were mapped from, when not from the model file
  std::string rest;  // serialized ModelProto of the fields not named above (functions, doc strings ...)

  int64_t opset() const;  // of ai.onnx
};

// The name of a node; unnamed and equally named nodes get stable names from name_nodes().
using LayerId = std::string;

// --- files -------------------------------------------------------------------------------------

// Reads a model. Weights in external files next to it are memory-mapped, not read.
// Throws Error{kInvalidInput}: missing file, not ONNX, truncated, opset or IR version not supported, no valid graph.
Model load_model(const std::filesystem::path& path);
Model parse_model(std::string_view bytes);  // a serialized ModelProto
// A serialized TensorProto, as in the .pb files of ONNX's test data. Throws Error{kInvalidInput} that begins with
// `where`.
Initializer parse_tensor(std::string_view bytes, const std::string& where);
// A model in ONNX's text form, `<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => ...`; for tests.
Model parse_model_text(std::string_view text);

// The ModelProto's bytes, weights inside. Deterministic.
std::string serialize(const Model& model);
// The size that serialize() would return, without building it.
int64_t serialized_size(const Model& model);
// Writes to a temporary name, then renames: no broken file is left, however the process ends. Weights go to
// `<path>.data` above 2 GB.
void save_model(const Model& model, const std::filesystem::path& path);

// True when both would be written as the same bytes. Cheap where the models share their weights.
bool equal(const Model& a, const Model& b);

// The model without the bytes of its big weights, for runtimes that take them from memory: every initializer of at
// least `threshold_bytes` that something reads becomes an external reference, listed here.
struct DetachedModel {
  std::string proto;
  std::vector<Initializer> weights;
};
DetachedModel serialize_detached(const Model& model, int64_t threshold_bytes = 1024);

// --- verbs -------------------------------------------------------------------------------------

// onnx.checker with full shape check. Throws Error{kInvalidInput} with the checker's words.
void check_model(const Model& model);

// Fills graph.value_info by ONNX's shape inference, symbolic dimensions and values of shapes included. Throws
// Error{kInvalidInput} where types or shapes contradict each other, nothing where inference gives up.
Model infer_shapes(const Model& model);

// Gives every unnamed node the name `node_<index>` as the published tool does, and every repeated name a suffix.
void name_nodes(Model& model);

// Puts the nodes into topological order, as ONNX asks, as close to the present one as can be. Some exporters and
// converters (to float16) leave them otherwise, and runtimes take that. False where they were in order. A cycle stays
// one.
bool sort_nodes(Model& model);

// Gives dimensions of inputs that are open a size: by the name of a symbolic one, {"sequence", 128}, or by input and
// axis, {"input:1", 128}. Throws Error{kUsage} where a key names nothing open, or a size is below 1.
void set_dimensions(std::span<ValueInfo> inputs, const std::map<std::string, int64_t>& sizes);
// The same for a model, all through: shapes that follow are inferred again.
Model with_dimensions(Model model, const std::map<std::string, int64_t>& sizes);

// Converts to a newer opset of ai.onnx. Throws Error{kInvalidInput} where ONNX's converter cannot.
Model convert_opset(const Model& model, int64_t version);

// Folds BatchNormalization into the Conv/ConvTranspose/Gemm before it where that node has no other reader. So too Mul
// and Add of a constant for each channel, as exporters write frozen ones. Returns how many nodes were folded.
int fold_batch_norms(Model& model);

// Makes initializers of the main graph's Constant nodes, so that weights kept there are quantized as weights; returns
// how many.
int lift_constants(Model& model);

struct PrepareOptions {
  bool sort_nodes = true;  // after they have their names
  int64_t min_opset = 13;  // lower opsets are converted up to it; 0 leaves the opset alone
  bool lift_constants = true;
  bool fold_batch_norms = true;
  bool infer_shapes = true;
};
struct Prepared {
  Model model;
  std::vector<std::string> actions;  // one sentence each: what was done, or why it was not
};
Prepared prepare(const Model& model, const PrepareOptions& = {});

}  // namespace seqto
