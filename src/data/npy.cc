// numpy's .npy: one array, a Python dictionary as its header.
#include "data/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <vector>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeName {
  DataType type;
  std::string_view name;  // without the byte order
};
constexpr TypeName kTypes[] = {{DataType::kFloat, "f4"},  {DataType::kDouble, "f8"}, {DataType::kFloat16, "f2"},
                               {DataType::kBool, "b1"},   {DataType::kInt8, "i1"},   {DataType::kInt16, "i2"},
                               {DataType::kInt32, "i4"},  {DataType::kInt64, "i8"},  {DataType::kUint8, "u1"},
                               {DataType::kUint16, "u2"}, {DataType::kUint32, "u4"}, {DataType::kUint64, "u8"}};

[[noreturn]] void fail(const std::string& name, std::string_view found, std::string_view advice) {
  throw Error(Code::kInvalidInput,
              fmt::format("[data] {}: {}; a numpy array of numbers expected; {}", name, found, advice));
}

struct Header {
  DataType type = DataType::kUndefined;
  size_t element_bytes = 0;
  bool fortran_order = false;
  std::vector<int64_t> dims;
};

DataType parse_type(std::string_view descr, const std::string& name, size_t& element_bytes) {
  const std::string found = fmt::format("the element type {} found", descr);
  if (descr.size() != 3) fail(name, found, "save it as float32 or integers");
  for (const auto& [type, type_name] : kTypes) {
    if (descr.substr(1) != type_name) continue;
    element_bytes = static_cast<size_t>(type_name[1] - '0');
    if (descr[0] == '>' && element_bytes > 1) fail(name, found, "save it in little-endian order");
    return type;
  }
  fail(name, found, "save it as float32 or integers");
}

// What follows 'key': in the dictionary, up to where `stop` begins.
std::string_view entry(std::string_view dictionary, std::string_view key, std::string_view stop,
                       const std::string& name) {
  const size_t at = dictionary.find(fmt::format("'{}':", key));
  if (at != std::string_view::npos) {
    std::string_view value = dictionary.substr(at + key.size() + 3);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (const size_t end = value.find_first_of(stop, 1); end != std::string_view::npos) return value.substr(0, end);
  }
  fail(name, fmt::format("a header without {} found", key), "save it again with numpy.save");
}

Header parse_header(std::string_view dictionary, const std::string& name) {
  Header header;
  std::string_view descr = entry(dictionary, "descr", "',", name);
  if (!descr.starts_with('\'')) fail(name, "an array of records found", "save one array for each field");
  header.type = parse_type(descr.substr(1), name, header.element_bytes);
  header.fortran_order = entry(dictionary, "fortran_order", ",}", name).starts_with("True");

  std::string_view shape = entry(dictionary, "shape", ")", name);
  int64_t count = 1;
  for (shape.remove_prefix(1); !shape.empty();) {
    int64_t dim = -1;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dim);
    const bool fits =
        error == std::errc() && dim >= 0 && (dim == 0 || count <= std::numeric_limits<int64_t>::max() / 8 / dim);
    if (!fits) fail(name, "a broken shape found", "save it again with numpy.save");
    header.dims.push_back(dim);
    count *= dim;
    shape.remove_prefix(end - shape.data());
    shape.remove_prefix(std::min(shape.find_first_not_of(", "), shape.size()));
  }
  return header;
}

// Fortran order lets the first index run fastest; here the last does.
void to_c_order(const std::byte* in, const Header& header, std::byte* out, size_t count) {
  const size_t rank = header.dims.size();
  std::vector<size_t> strides(rank, 1), index(rank, 0);
  for (size_t d = 1; d < rank; ++d) strides[d] = strides[d - 1] * static_cast<size_t>(header.dims[d - 1]);
  size_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(out + i * header.element_bytes, in + from * header.element_bytes, header.element_bytes);
    for (size_t d = rank; d-- > 0;) {
      from += strides[d];
      if (++index[d] < static_cast<size_t>(header.dims[d])) break;
      from -= strides[d] * index[d];
      index[d] = 0;
    }
  }
}

}  // namespace

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  if (!is_npy(bytes)) fail(name, "other data found", "save it with numpy.save or numpy.savez");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const int version = bytes.size() > 8 ? text[6] : 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) fail(name, "an unknown format version found", "save it again with numpy.save");
  const size_t start = 8 + length_bytes;
  size_t length = 0;
  for (size_t i = 0; i < length_bytes && 8 + i < text.size(); ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  }
  if (text.size() < start || text.size() - start < length) fail(name, "a header cut short found", "write it again");

  const Header header = parse_header(text.substr(start, length), name);
  const auto data = bytes.subspan(start + length);
  size_t count = 1;
  for (const int64_t dim : header.dims) count *= static_cast<size_t>(dim);
  if (data.size() / header.element_bytes < count) {
    fail(name, fmt::format("{} bytes of {} found", data.size(), count * header.element_bytes), "write it again");
  }
  // Words of eight bytes, so that the data are aligned for any element.
  const size_t size = count * header.element_bytes;
  auto owner = std::shared_ptr<uint64_t[]>(new uint64_t[size / 8 + 1]);
  auto* out = reinterpret_cast<std::byte*>(owner.get());
  if (header.fortran_order) to_c_order(data.data(), header, out, count);
  else std::memcpy(out, data.data(), size);
  return {header.type, header.dims, std::move(owner), {out, size}};
}

std::string npy_header(const Tensor& tensor, const std::string& name) {
  for (const auto& [type, type_name] : kTypes) {
    if (type != tensor.type()) continue;
    const auto& dims = tensor.dims();
    std::string text =
        fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", type_name[1] == '1' ? '|' : '<',
                    type_name, fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
    constexpr size_t kBefore = 10, kAlignment = 64;
    text.append(kAlignment - (kBefore + text.size() + 1) % kAlignment, ' ');
    text += '\n';
    std::string header(kMagic);
    header += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
    return header + text;
  }
  throw Error(Code::kInvalidInput,
              fmt::format("[data] {}: elements of type {} found; a type of numpy expected; convert the tensor first",
                          name, to_string(tensor.type())));
}

}  // namespace seqto::internal
