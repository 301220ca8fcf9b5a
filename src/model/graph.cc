// Small questions to tensors, nodes, graphs and models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "model/float16.h"
#include "model/mapped_values.h"
#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {

std::span<const std::byte> internal::MappedValues::aligned_copy() const {
  std::call_once(once_, [&] {
    copy_.reset(new std::byte[bytes_.size()]);
    std::memcpy(copy_.get(), bytes_.data(), bytes_.size());
    release();
  });
  return {copy_.get(), bytes_.size()};
}

Tensor Tensor::in_file(DataType type, std::vector<int64_t> dims, std::shared_ptr<const internal::MappedValues> file,
                       std::span<const std::byte> bytes) {
  Tensor tensor(type, std::move(dims), nullptr, bytes);
  tensor.file_ = std::move(file);
  return tensor;
}

std::span<const std::byte> Tensor::aligned_copy() const { return file_->aligned_copy(); }

Tensor Tensor::aligned() const {
  auto bytes = aligned_bytes(std::max<size_t>(1, element_bits(type_) / 8));
  if (bytes.data() == bytes_.data()) return *this;
  return Tensor(type_, dims_, std::shared_ptr<const void>(file_), bytes);
}

Tensor Tensor::reshaped(std::vector<int64_t> dims) const {
  Tensor other = *this;
  other.dims_ = std::move(dims);
  return other;
}

void Tensor::fetch() const {
  if (file_) file_->fetch();
}

void Tensor::release() const {
  if (file_) file_->release();
}

void Tensor::drop() const {
  if (file_) file_->drop();
}

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (int64_t d : dims_) count *= d;
  return count;
}

bool Tensor::equals(const Tensor& other) const {
  return type_ == other.type_ && dims_ == other.dims_ && bytes_.size() == other.bytes_.size() &&
         (bytes_.data() == other.bytes_.data() || bytes_.empty() ||
          std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0);
}

Tensor float_tensor(std::vector<int64_t> dims, std::vector<float> values) {
  return Tensor::from(DataType::kFloat, std::move(dims), std::move(values));
}

Tensor int64_tensor(std::vector<int64_t> dims, std::vector<int64_t> values) {
  return Tensor::from(DataType::kInt64, std::move(dims), std::move(values));
}

namespace {

[[noreturn]] void no_number(const Tensor& tensor, int64_t index) {
  throw Error(
      Code::kInvalidInput,
      fmt::format("[model] a constant of type {} with dimensions [{}] found, which has no number at {}; one was "
                  "expected; export the model again",
                  to_string(tensor.type()), fmt::join(tensor.dims(), ", "), index));
}

template <class T>
T value_at(const Tensor& tensor, int64_t index) {
  const auto values = tensor.values<T>();
  if (static_cast<size_t>(index) >= values.size()) no_number(tensor, index);
  return values[static_cast<size_t>(index)];
}

}  // namespace

double element(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DataType::kFloat:
      return value_at<float>(tensor, index);
    case DataType::kDouble:
      return value_at<double>(tensor, index);
    case DataType::kFloat16:
      return half_to_float(value_at<uint16_t>(tensor, index));
    case DataType::kBfloat16:
      return std::bit_cast<float>(static_cast<uint32_t>(value_at<uint16_t>(tensor, index)) << 16);
    case DataType::kInt8:
      return value_at<int8_t>(tensor, index);
    case DataType::kUint8:
    case DataType::kBool:
      return value_at<uint8_t>(tensor, index);
    case DataType::kInt16:
      return value_at<int16_t>(tensor, index);
    case DataType::kUint16:
      return value_at<uint16_t>(tensor, index);
    case DataType::kInt32:
      return value_at<int32_t>(tensor, index);
    case DataType::kUint32:
      return value_at<uint32_t>(tensor, index);
    case DataType::kInt64:
      return static_cast<double>(value_at<int64_t>(tensor, index));
    case DataType::kUint64:
      return static_cast<double>(value_at<uint64_t>(tensor, index));
    case DataType::kUint4:
    case DataType::kInt4: {
      uint8_t byte = value_at<uint8_t>(tensor, index / 2);
      int nibble = index % 2 ? byte >> 4 : byte & 15;
      return tensor.type() == DataType::kInt4 && nibble > 7 ? nibble - 16 : nibble;
    }
    default:
      no_number(tensor, index);
  }
}

const Attribute* Node::attribute(std::string_view wanted) const {
  for (const Attribute& a : attributes)
    if (a.name == wanted) return &a;
  return nullptr;
}

namespace {
template <class T>
T attribute_or(const Node& node, std::string_view name, T otherwise) {
  const Attribute* a = node.attribute(name);
  const T* value = a ? std::get_if<T>(&a->value) : nullptr;
  if (value) return *value;
  return otherwise;
}
}  // namespace

int64_t Node::int_attribute(std::string_view wanted, int64_t otherwise) const {
  return attribute_or<int64_t>(*this, wanted, otherwise);
}
float Node::float_attribute(std::string_view wanted, float otherwise) const {
  return attribute_or<float>(*this, wanted, otherwise);
}
std::string Node::string_attribute(std::string_view wanted, std::string otherwise) const {
  return attribute_or<std::string>(*this, wanted, std::move(otherwise));
}

void Node::set_attribute(Attribute attribute) {
  for (Attribute& a : attributes)
    if (a.name == attribute.name) {
      a = std::move(attribute);
      return;
    }
  attributes.push_back(std::move(attribute));
}

const Tensor* Graph::initializer(std::string_view wanted) const {
  for (const Initializer& i : initializers)
    if (i.name == wanted) return &i.tensor;
  return nullptr;
}

std::vector<ValueInfo> Graph::free_inputs() const {
  std::unordered_set<std::string_view> constants;
  for (const Initializer& i : initializers) constants.insert(i.name);
  std::vector<ValueInfo> free;
  for (const ValueInfo& v : inputs)
    if (!constants.contains(v.name)) free.push_back(v);
  return free;
}

int64_t Model::opset() const {
  for (const Opset& o : opsets)
    if (o.domain.empty() || o.domain == "ai.onnx") return o.version;
  return 0;
}

}  // namespace seqto
