// Room: model. What every reader of a graph may rely on, checked once when a file is loaded.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>
#include <string>

#include "seqto/model.h"

namespace seqto::internal {

// Throws Error{kInvalidInput}, beginning with `where`, unless in the graph and in all bodies inside: names are UTF-8
// and written once, what is read is written somewhere, no node reads what follows from it, and operators have the
// inputs and outputs that they need. Runtimes ask the same; unlike onnx.checker this takes nodes in any order. Linear.
// `left_out`: initializers that the graph has besides its own.
void check_graph(const onnx::ModelProto& model, const std::string& where, std::span<const Initializer> left_out = {});

}  // namespace seqto::internal
