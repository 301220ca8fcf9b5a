#include "model/type_variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

namespace seqto::internal {
namespace {

using onnx::OpSchema;

// The formal parameter of the i-th argument; the last one may stand for any number of them.
const std::string& variable_of(const std::vector<OpSchema::FormalParameter>& formal, size_t i) {
  return formal[std::min(i, formal.size() - 1)].GetTypeStr();
}

const OpSchema* schema_of(const Node& node, int64_t opset) {
  const bool standard = node.domain.empty() || node.domain == "ai.onnx";
  return standard ? onnx::OpSchemaRegistry::Schema(node.op_type, static_cast<int>(opset), "") : nullptr;
}

// As schemas write it: "tensor(float)".
std::string schema_type(DataType type) {
  const std::string_view name = to_string(type);
  return fmt::format("tensor({})", name == "float32" ? "float" : name == "float64" ? "double" : name);
}

std::string our_name(std::string_view schema_type) {
  if (schema_type.starts_with("tensor(")) schema_type = schema_type.substr(7, schema_type.size() - 8);
  return std::string(schema_type == "float" ? "float32" : schema_type == "double" ? "float64" : schema_type);
}

bool takes_both(const OpSchema& schema, const std::string& variable) {
  for (const auto& constraint : schema.typeConstraintParams()) {
    if (constraint.type_param_str != variable) continue;
    const auto& allowed = constraint.allowed_type_strs;
    auto has = [&](const char* type) { return std::find(allowed.begin(), allowed.end(), type) != allowed.end(); };
    return has("tensor(float)") && has("tensor(float16)");
  }
  return false;
}

}  // namespace

std::vector<TypeVariable> float16_variables(const Node& node, int64_t opset) {
  const OpSchema* schema = schema_of(node, opset);
  if (!schema) return {};
  std::map<std::string, TypeVariable> variables;
  for (size_t i = 0; i < node.inputs.size() && !schema->inputs().empty(); ++i)
    if (!node.inputs[i].empty()) variables[variable_of(schema->inputs(), i)].inputs.push_back(i);
  for (size_t i = 0; i < node.outputs.size() && !schema->outputs().empty(); ++i) {
    auto it = variables.find(variable_of(schema->outputs(), i));
    if (it != variables.end() && !node.outputs[i].empty()) it->second.outputs.push_back(i);
  }
  std::vector<TypeVariable> result;
  for (auto& [name, variable] : variables)
    if (takes_both(*schema, name)) result.push_back(std::move(variable));
  return result;
}

std::string type_refusal(const Node& node, int64_t opset, const std::unordered_map<std::string, DataType>& types) {
  const OpSchema* schema = schema_of(node, opset);
  if (!schema || schema->inputs().empty()) return {};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto found = types.find(node.inputs[i]);
    if (found == types.end()) continue;
    const std::string& variable = variable_of(schema->inputs(), i);
    for (const auto& constraint : schema->typeConstraintParams()) {
      const auto& allowed = constraint.allowed_type_strs;
      if (constraint.type_param_str != variable || std::ranges::count(allowed, schema_type(found->second)) > 0)
        continue;
      std::vector<std::string> taken;
      std::ranges::transform(allowed, std::back_inserter(taken), our_name);
      return fmt::format("{} of '{}' found; opset {} takes {}", to_string(found->second), node.inputs[i], opset,
                         fmt::join(taken, ", "));
    }
  }
  return {};
}

const std::vector<std::string>& standard_operators() {
  static const std::vector<std::string> kNames = [] {
    std::set<std::string> names;
    for (const OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history())
      if (schema.domain().empty()) names.insert(schema.Name());
    return std::vector<std::string>(names.begin(), names.end());
  }();
  return kNames;
}

}  // namespace seqto::internal
