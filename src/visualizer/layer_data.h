// The data of the view of single layers as JSON, for layer_view.js and graph_view.js.
#pragma once

#include "base/json.h"

#include "seqto/report.h"

namespace seqto::internal {

// {"layers": [{name, op, shape, weights_text, quantizable, inputs, weights, outputs}], "tensors": {name: {range, bins,
// counts, quantized, qdq_err, xmodel_err, sqnr}}, "texts": [...], "plans": {id: [[scheme, reason] by layer]}}, schemes
// and reasons by their position in `texts`. Null where the study does not know how its layers are connected.
nlohmann::ordered_json layer_view_data(const Summary& summary);

}  // namespace seqto::internal
