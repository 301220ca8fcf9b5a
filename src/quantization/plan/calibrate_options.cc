// CalibrateOptions as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "seqto/calibrate.h"
#include "seqto/error.h"

namespace seqto {

using nlohmann::json;

std::string calibrate_options_to_json(const CalibrateOptions& c) {
  const CalibrateOptions d;
  json j = json::object();
  if (c.method != d.method) j["method"] = to_string(c.method);
  for (const auto& [pattern, method] : c.tensor_methods) j["tensor_methods"].push_back({pattern, to_string(method)});
  if (!c.exact) j["exact"] = false;
  if (c.symmetric) j["symmetric"] = *c.symmetric;
  if (c.chunk_samples != d.chunk_samples) j["chunk_samples"] = c.chunk_samples;
  if (c.moving_average_constant != d.moving_average_constant) j["moving_average_constant"] = c.moving_average_constant;
  if (c.bins != d.bins) j["bins"] = c.bins;
  if (c.quantized_bins != d.quantized_bins) j["quantized_bins"] = c.quantized_bins;
  if (c.percentile != d.percentile) j["percentile"] = c.percentile;
  return j.dump();
}

CalibrateOptions calibrate_options_from_json(const std::string& text) {
  CalibrateOptions c;
  try {
    const json j = internal::parse_json(text);
    if (const auto it = j.find("method"); it != j.end())
      c.method = parse_calibration_method(it->get_ref<const std::string&>());
    if (const auto it = j.find("tensor_methods"); it != j.end())
      for (const json& entry : *it)
        c.tensor_methods.emplace_back(entry.at(0).get<std::string>(),
                                      parse_calibration_method(entry.at(1).get_ref<const std::string&>()));
    c.exact = j.value("exact", c.exact);
    if (const auto it = j.find("symmetric"); it != j.end()) c.symmetric = it->get<bool>();
    c.chunk_samples = j.value("chunk_samples", c.chunk_samples);
    c.moving_average_constant = j.value("moving_average_constant", c.moving_average_constant);
    c.bins = j.value("bins", c.bins);
    c.quantized_bins = j.value("quantized_bins", c.quantized_bins);
    c.percentile = j.value("percentile", c.percentile);
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[calibrate] {}; an object of CalibrateOptions' fields was expected", error.what()));
  }
  return c;
}

}  // namespace seqto
