// onnxruntime's JSON calibration cache.
#include "quantization/calibration/ranges.h"

#include <fmt/format.h>

#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;

// Numbers are plain, or {"data": [x], "dtype": "float32", "CLS": "numpy.array"}; lists may be around them.
float number(const json& value, const std::string& tensor) {
  const json* v = value.is_object() ? &value.at("data") : &value;
  for (; v->is_array(); v = &v->at(0))
    if (v->size() > 1)
      throw Error(Code::kInvalidInput,
                  fmt::format("[ranges] {} bounds of '{}' found, one for each channel; one for the whole tensor "
                              "expected; calibrate with per_channel=False, or with `seqto calibrate`",
                              v->size(), tensor));
  return v->get<float>();
}

template <class T>
json array_of(const T& value, const char* type) {
  return {{"data", value}, {"dtype", type}, {"CLS", "numpy.array"}};
}

bool is_list(const json& entry, const char* key) {
  return entry.contains(key) && entry.at(key).is_object() && entry.at(key).at("data").is_array();
}

// Percentile's caches by onnxruntime hold two single counts under these names: those are passed over.
std::shared_ptr<const Histogram> histogram_of(const json& entry) {
  const char* edges = is_list(entry, "hist_edges") ? "hist_edges" : "bins";
  if (!is_list(entry, "hist") || !is_list(entry, edges)) return nullptr;
  Histogram h{entry.at("hist").at("data").get<std::vector<int64_t>>(),
              entry.at(edges).at("data").get<std::vector<float>>()};
  return h.edges.size() == h.counts.size() + 1 ? std::make_shared<const Histogram>(std::move(h)) : nullptr;
}

json entry_of(const Range& range) {
  json entry{{"lowest", array_of(range.lowest, "float32")},
             {"highest", array_of(range.highest, "float32")},
             {"CLS", "TensorData"}};
  if (range.avg) entry["avg"] = array_of(*range.avg, "float32");
  if (range.std) entry["std"] = array_of(*range.std, "float32");
  if (!range.histogram) return entry;
  entry["hist"] = array_of(range.histogram->counts, "int64");
  entry[range.avg ? "hist_edges" : "bins"] = array_of(range.histogram->edges, "float32");
  return entry;
}

const char* onnxruntime_name(CalibrationMethod method) {
  switch (method) {
    case CalibrationMethod::kEntropy:
      return "CalibrationMethod.Entropy";
    case CalibrationMethod::kPercentile:
      return "CalibrationMethod.Percentile";
    case CalibrationMethod::kDistribution:
      return "CalibrationMethod.Distribution";
    default:
      return "CalibrationMethod.MinMax";
  }
}

}  // namespace

json internal::tensors_data(const Ranges& ranges, CalibrationMethod method) {
  json data = json::object();
  for (const auto& [tensor, range] : ranges) data[tensor] = entry_of(range);
  return {{"CLS", "TensorsData"},
          {"calibration_method", {{"CLS", "CalibrationMethod"}, {"value", onnxruntime_name(method)}}},
          {"data", std::move(data)}};
}

Ranges load_ranges(const std::filesystem::path& path) {
  try {
    json file = internal::parse_json(read_file(path));
    const json& data = file.contains("data") ? file.at("data") : file;
    Ranges ranges;
    for (const auto& [tensor, entry] : data.items()) {
      if (!entry.is_object() || !entry.contains("lowest")) continue;
      Range range{number(entry.at("lowest"), tensor), number(entry.at("highest"), tensor)};
      if (std::isfinite(range.lowest) && std::isfinite(range.highest) && range.lowest > range.highest)
        throw Error(
            Code::kInvalidInput,
            fmt::format("[ranges] {}: lowest {} and highest {} of '{}' found; the lowest first expected; correct "
                        "it, or write one with `seqto calibrate`",
                        path.string(), range.lowest, range.highest, tensor));
      if (entry.contains("avg")) range.avg = number(entry.at("avg"), tensor);
      if (entry.contains("std")) range.std = number(entry.at("std"), tensor);
      range.histogram = histogram_of(entry);
      ranges[tensor] = std::move(range);
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

void save_ranges(const Ranges& ranges, const std::filesystem::path& path, CalibrationMethod method) {
  json file = internal::tensors_data(ranges, method);
  file["smooth_quant"] = false;
  write_file_atomic(path, file.dump());
}

}  // namespace seqto
