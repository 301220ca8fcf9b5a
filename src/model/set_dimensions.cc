// Open dimensions of inputs get a size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

// What may be named: "batch", "input:1" ...
std::vector<std::string> open_dimensions(std::span<const ValueInfo> inputs) {
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs) {
    for (size_t axis = 0; input.shape && axis < input.shape->size(); ++axis) {
      const Dimension& d = (*input.shape)[axis];
      if (d.value >= 0) continue;
      std::string name = d.parameter.empty() ? fmt::format("{}:{}", input.name, axis) : d.parameter;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

[[noreturn]] void fail(const std::string& key, int64_t size, const std::string& what) {
  throw Error(Code::kUsage, fmt::format("[model] the dimension {}={} found; {}", key, size, what));
}

void fix(ValueInfo& info, size_t axis, int64_t size) {
  (*info.shape)[axis] = {size, ""};
  info.proto.clear();  // it tells the shape as well
}

bool fix_symbol(std::span<ValueInfo> infos, const std::string& symbol, int64_t size) {
  bool found = false;
  for (ValueInfo& info : infos)
    for (size_t axis = 0; info.shape && axis < info.shape->size(); ++axis)
      if ((*info.shape)[axis].value < 0 && (*info.shape)[axis].parameter == symbol) {
        fix(info, axis, size);
        found = true;
      }
  return found;
}

bool fix_axis(std::span<ValueInfo> inputs, const std::string& key, int64_t size) {
  const size_t colon = key.rfind(':');
  if (colon == std::string::npos) return false;
  size_t axis = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data() + colon + 1, end, axis);
  if (error != std::errc() || stop != end) return false;
  for (ValueInfo& input : inputs) {
    if (input.name != key.substr(0, colon) || !input.shape || axis >= input.shape->size()) continue;
    const int64_t is = (*input.shape)[axis].value;
    if (is >= 0 && is != size) fail(key, size, fmt::format("the model fixes it at {}; leave it out", is));
    fix(input, axis, size);
    return true;
  }
  return false;
}

}  // namespace

void set_dimensions(std::span<ValueInfo> inputs, const std::map<std::string, int64_t>& sizes) {
  const std::vector<std::string> names = open_dimensions(inputs);
  for (const auto& [key, size] : sizes) {
    if (size < 1) fail(key, size, "a size of at least 1 was expected");
    if (fix_symbol(inputs, key, size) || fix_axis(inputs, key, size)) continue;
    fail(key, size,
         names.empty() ? "every dimension of the model's inputs is fixed; leave it out"
                       : fmt::format("one of {}, or INPUT:AXIS, was expected", fmt::join(names, ", ")));
  }
}

Model with_dimensions(Model model, const std::map<std::string, int64_t>& sizes) {
  set_dimensions(model.graph.inputs, sizes);
  for (const auto& [key, size] : sizes) {
    fix_symbol(model.graph.outputs, key, size);
    fix_symbol(model.graph.value_info, key, size);
  }
  return infer_shapes(model);
}

}  // namespace seqto
