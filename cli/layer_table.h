// What the words say about layers, as a table and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "seqto/explain.h"

namespace seqto::cli {

void print_layers(const std::vector<LayerReport>& layers);
nlohmann::ordered_json layers_json(const std::vector<LayerReport>& layers);

}  // namespace seqto::cli
