// A case of the cases' folder as `tune` opens it, for benchmarks that look inside of a search.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/files.h"
#include "orchestrator/tune/references.h"

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

// A study up to its search: prepared, calibrated, with what candidates are compared with.
struct CaseStudy {
  explicit CaseStudy(TuneOptions options)
      : time_(0, env_),
        inputs_((options.output = folder_.path / "study", open_inputs(std::move(options), time_, env_))),
        study_(open_study(inputs_)),
        references_(measure_references(inputs_, study_, time_)),
        bench_(workbench(inputs_, references_.base, study_.study, time_)) {}

  TemporaryFolder folder_;
  Env env_;
  TimeBudget time_;
  Inputs inputs_;
  OpenStudy study_;
  References references_;
  Workbench bench_;
};

}  // namespace seqto::internal
