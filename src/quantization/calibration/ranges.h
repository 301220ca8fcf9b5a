// Room: quantization/calibration. Ranges in the JSON of onnxruntime's TensorsData.
#pragma once

#include "base/json.h"

#include "seqto/calibrate.h"

namespace seqto::internal {

nlohmann::json tensors_data(const Ranges& ranges, CalibrationMethod method);

}  // namespace seqto::internal
