// The options with which `tune` runs a case of the cases' folder, for benchmarks that look inside of a search.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"
#include "orchestrator/tune/options.h"

namespace seqto::internal {

inline TuneOptions options_for(const std::filesystem::path& model, const std::filesystem::path& data) {
  TuneOptions options;
  options.model = model;
  options.data = data;
  options.search.objectives = {"kl", "size", "latency"};
  options.search_samples = 2;       // benchmarks make splits of their own, or look at no loss
  options.correct_weights = false;  // minutes a network, and the same for all that is compared
  return options;
}

inline TuneOptions case_options(const std::filesystem::path& folder) {
  const auto info = nlohmann::json::parse(read_file(folder / "case.json"));
  const auto at = [&](const char* name) { return (folder / info.at(name).get<std::string>()).lexically_normal(); };
  TuneOptions options = options_for(at("model"), at("data"));
  if (info.contains("labels")) options.dataset.labels = at("labels").string();
  if (info.contains("preprocess")) options.dataset.preprocess = at("preprocess").string();
  return options;
}

}  // namespace seqto::internal
