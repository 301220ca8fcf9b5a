// The arrays of an .npz or .npy, and their writer.
#include "data/arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/npy.h"
#include "seqto/dataset.h"
#include "seqto/error.h"

namespace seqto {
namespace internal {
namespace {
constexpr std::string_view kSuffix = ".npy";
}  // namespace

ArrayFile::ArrayFile(const std::filesystem::path& path, bool may_be_empty) : file_(path.string()), mapped_(path) {
  const auto bytes = mapped_.bytes();
  if (is_npy(bytes)) {
    names_.emplace_back();
    return;
  }
  if (bytes.size() < 4 || std::to_integer<char>(bytes[0]) != 'P' || std::to_integer<char>(bytes[1]) != 'K') {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: neither an .npz nor an .npy found; a folder of images, an .npz "
                            "or an .npy expected; save arrays with numpy.savez",
                            file_));
  }
  for (ZipMember& member : list_zip(bytes, file_)) {
    if (!member.name.ends_with(kSuffix)) continue;  // numpy too passes over other members
    names_.push_back(member.name.substr(0, member.name.size() - kSuffix.size()));
    members_.push_back(std::move(member));
  }
  if (names_.empty() && !may_be_empty) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: no arrays found; at least one expected; save them with numpy.savez", file_));
  }
}

bool ArrayFile::has(const std::string& name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Tensor ArrayFile::load(const std::string& name) const {
  if (members_.empty()) return parse_npy(mapped_.bytes(), file_);
  const auto index = std::find(names_.begin(), names_.end(), name) - names_.begin();
  std::vector<std::byte> storage;
  return parse_npy(read_member(mapped_.bytes(), members_[index], file_, storage), fmt::format("{}, {}", file_, name));
}

}  // namespace internal

std::vector<Initializer> load_arrays(const std::filesystem::path& path) {
  const internal::ArrayFile file(path);
  std::vector<Initializer> arrays;
  for (const std::string& name : file.names()) arrays.push_back({name, file.load(name)});
  return arrays;
}

void save_npz(const std::filesystem::path& path, std::span<const Initializer> arrays) {
  std::vector<internal::ZipSource> sources;
  for (const auto& [name, tensor] : arrays) {
    const auto bytes = tensor.bytes();
    sources.push_back({name + std::string(internal::kSuffix),
                       internal::npy_header(tensor, name),
                       {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  std::vector<std::string> storage;
  const auto pieces = internal::write_zip(sources, storage);
  write_file_atomic(path, pieces);
}

}  // namespace seqto
