// onnxruntime's JSON calibration cache.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using nlohmann::json;

// Numbers are plain, or {"data": [x], "dtype": "float32", "CLS": "numpy.array"}.
float number(const json& value) {
  const json* v = value.is_object() ? &value.at("data") : &value;
  while (v->is_array()) v = &v->at(0);
  return v->get<float>();
}

json array_of(float value) { return {{"data", value}, {"dtype", "float32"}, {"CLS", "numpy.array"}}; }

}  // namespace

Ranges load_ranges(const std::filesystem::path& path) {
  try {
    json file = json::parse(read_file(path));
    const json& data = file.contains("data") ? file.at("data") : file;
    Ranges ranges;
    for (const auto& [tensor, entry] : data.items()) {
      if (!entry.is_object() || !entry.contains("lowest")) continue;
      ranges[tensor] = {number(entry.at("lowest")), number(entry.at("highest"))};
    }
    return ranges;
  } catch (const json::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[ranges] {}: {}; a calibration cache with data: {{tensor: {{lowest, highest}}}} was expected; "
                    "write one with `seqto calibrate`",
                    path.string(), error.what()));
  }
}

void save_ranges(const Ranges& ranges, const std::filesystem::path& path, CalibrationMethod) {
  json data = json::object();
  for (const auto& [tensor, range] : ranges)
    data[tensor] = {{"lowest", array_of(range.lowest)}, {"highest", array_of(range.highest)}, {"CLS", "TensorData"}};
  json file{{"CLS", "TensorsData"},
            {"calibration_method",
             {{
                  "CLS",
                  "CalibrationMethod",
              },
              {"value", "CalibrationMethod.MinMax"}}},
            {"data", data},
            {"smooth_quant", false}};
  write_file_atomic(path, file.dump());
}

}  // namespace seqto
