// Room: quantization/improve. A model under rewriting: constants looked up by name, new ones and nodes computed from
// them added.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

class GraphEdit {
 public:
  explicit GraphEdit(const Model& model);

  std::vector<Node>& nodes() { return model_.graph.nodes; }
  const Model& model() const { return model_; }

  // An initializer or the value of a Constant node of the model as it came; nullptr for anything else.
  const Tensor* constant(const std::string& name) const;
  // A name like `wanted` that nobody has yet.
  std::string fresh(const std::string& wanted);
  // Adds an initializer; returns its name.
  std::string add(const std::string& wanted, Tensor tensor);
  // A small int64 vector, written once however often it is asked for.
  std::string add_int64s(const std::vector<int64_t>& values);
  std::string add_uint8(uint8_t value);
  // Adds a node that reads only constants, before all others; returns its output's name.
  std::string compute(const char* op_type, std::vector<std::string> inputs, const std::string& wanted_output,
                      std::vector<Attribute> attributes = {});
  // The Transpose that gives this tensor reads the matrix `from` instead of its own.
  void turn(const std::string& output, const std::string& from) { turned_[output] = from; }
  void require_opset(const std::string& domain, int64_t version);
  void require_ir_version(int64_t version);

  // The rewritten model; constants that nothing reads any more are gone, and Transposes of them.
  Model finish();

 private:
  Model model_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_set<std::string> names_;
  std::map<std::vector<int64_t>, std::string> int64s_;
  std::map<uint8_t, std::string> uint8s_;
  std::unordered_map<std::string, std::string> turned_;
  std::vector<Node> computed_;
  std::vector<Initializer> added_;
};

}  // namespace seqto::internal
