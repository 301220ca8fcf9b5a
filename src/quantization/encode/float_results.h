// Room: quantization/encode. What a runtime has as floats between its products.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

// A product, whose inputs are rounded wherever they come from, or a Gather of a weight's rows.
bool has_weight(const Node& node, const GraphView& view);

// What products of these types give, what is made of integers (rows of an embedding, angles of positions), and what is
// computed of either up to the next product. Not what they are only spread over, as the factor of each channel of a
// convolution. Nodes in topological order.
std::unordered_set<std::string> float_results(const Model& model, const GraphView& view,
                                              const std::vector<std::string>& op_types);

// A Relu or Clip alone behind a product, with one reader that is no product. The runtime looks for codes behind it, and
// where it finds none it fuses the two in float: so the results of such products are no floats at no cost.
bool is_clip_of_product(const Node& node, const GraphView& view);

// Whether a product that is `on_codes`, or an Add of its result and a constant, computes the tensor for one reader.
bool is_for_one_reader(const std::string& tensor, const GraphView& view,
                       const std::function<bool(const Node&)>& on_codes);

}  // namespace seqto::internal
