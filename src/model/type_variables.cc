#include "model/type_variables.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>

namespace seqto::internal {
namespace {

using onnx::OpSchema;

// The formal parameter of the i-th argument; the last one may stand for any number of them.
const std::string& variable_of(const std::vector<OpSchema::FormalParameter>& formal, size_t i) {
  return formal[std::min(i, formal.size() - 1)].GetTypeStr();
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
  const OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type, static_cast<int>(opset),
                                                          node.domain == "ai.onnx" ? "" : node.domain);
  if (!schema || !node.domain.empty()) return {};
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

}  // namespace seqto::internal
