#include "base/json.h"
#include "seqto/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/files.h"
#include "base/text.h"
#include "metrics/loss/loss_fields.h"
#include "orchestrator/study/name_points.h"
#include "orchestrator/study/summarize.h"
#include "seqto/error.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;
using nlohmann::json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

class ResultFile {
 public:
  explicit ResultFile(const fs::path& path) : path_(path), root_(internal::parse_json_if_any(read_file(path))) {
    if (!root_.is_object()) fail("no JSON object", "a result of the published tool");
  }

  std::vector<Trial> trials() const {
    const auto number = [this](const json& value) { return number_of(value); };
    const auto losses = list("/dissimilarities", number), seconds = list("/benchmarks/quantized", number);
    const auto sizes = list("/size/quantized", [this](const json& value) { return size_of(value); });
    if (losses.empty() || losses.size() != sizes.size() || losses.size() != seconds.size())
      fail(fmt::format("{} dissimilarities, {} sizes and {} times", losses.size(), sizes.size(), seconds.size()),
           "one of each for every candidate");
    std::vector<Trial> trials{trial("float", 0, size_of(at("/size/original")), number_of(at("/benchmarks/original")))};
    auto excluded = exclusions(losses.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      trials.push_back(trial(i == 0 ? "full" : fmt::format("cycle-{}", i), losses[i] / 100, sizes[i], seconds[i]));
      trials.back().number = static_cast<int64_t>(i + 1);
      trials.back().excluded = excluded[i];
    }
    return trials;
  }

  Sensitivity sensitivity() const {
    Sensitivity s;
    // Its scores are those of the published order; what they were made of is not in the file.
    for (const auto& [name, score] : list("/activations", [this](const json& value) { return scored(value); }))
      s.activations.push_back({.tensor = name, .qdq_err = kUnknown, .xmodel_err = kUnknown, .score = score});
    return s;
  }

  // "0e7c..._mobilenetv2-10_upd_onnx_dynamic_out.json": without the hash and "out", as the published plots are called.
  std::string title() const {
    std::string name = path_.stem().string();
    if (size_t hash = name.find('_'); hash != std::string::npos) name = name.substr(hash + 1);
    if (size_t out = name.find("_out"); out != std::string::npos) name.erase(out, 4);
    return name;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw Error(Code::kInvalidInput, fmt::format("[report] {}: {} found; {} was expected; give a *_out.json of it",
                                                 path_.string(), found, expected));
  }

  const json& at(const char* pointer) const {
    json::json_pointer p(pointer);
    if (!root_.contains(p)) fail(fmt::format("no {}", pointer), "a result of the published tool");
    return root_[p];
  }

  double number_of(const json& value) const {
    if (!value.is_number()) fail(value.dump(), "a number");
    return value.get<double>();
  }

  template <class Read>
  std::vector<std::invoke_result_t<Read, const json&>> list(const char* pointer, Read read) const {
    std::vector<std::invoke_result_t<Read, const json&>> values;
    for (const json& value : at(pointer)) values.push_back(read(value));
    return values;
  }

  // "3.43 MB", units of 1024.
  int64_t size_of(const json& value) const {
    std::string text = value.is_string() ? value.get<std::string>() : "";
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string unit(end, text.data() + text.size() - end);
    double factor = unit == " bytes" ? 1
                    : unit == " KB"  ? 1 << 10
                    : unit == " MB"  ? 1 << 20
                    : unit == " GB"  ? 1 << 30
                                     : 0;
    if (error != std::errc() || factor == 0 || !(number >= 0 && number < 1e6))
      fail(value.dump(), "a size as in 3.43 MB");
    return std::llround(number * factor);
  }

  std::string name_of(const json& value) const {
    if (!value.is_string()) fail(value.dump(), "the name of a node or tensor");
    return value.get<std::string>();
  }

  std::pair<std::string, double> scored(const json& pair) const {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) fail(pair.dump(), "a pair of name and error");
    return {pair[0].get<std::string>(), pair[1].is_number() ? pair[1].get<double>() : kUnknown};
  }

  // What each candidate left in float: the exclusions in their order; those that changed nothing made no candidate.
  std::vector<std::vector<std::string>> exclusions(size_t candidates) const {
    const auto name = [this](const json& value) { return name_of(value); };
    const auto all = list("/excluded_nodes", name), skipped = list("/skipped_nodes", name);
    std::vector<std::string> so_far;
    std::vector<std::vector<std::string>> steps{{}};
    auto next = skipped.begin();
    for (const std::string& excluded : all) {
      so_far.push_back(excluded);
      if (next != skipped.end() && *next == excluded) ++next;
      else steps.push_back(so_far);
    }
    // A run that began with exclusions of its own, or that was cut, does not tell which candidate had which.
    if (steps.size() != candidates) steps.assign(candidates, {});
    return steps;
  }

  static Trial trial(const std::string& id, double dissimilarity, int64_t size, double seconds) {
    Trial t{.id = id};
    Measurement m{.size_bytes = size};
    for (const auto& field : kLossFields) m.losses.*field.value = id == "float" ? 0 : kUnknown;
    m.losses.rank_dissimilarity = dissimilarity;
    int64_t ns = std::llround(seconds * 1e9);
    m.latency = {ns, ns, ns};
    t.measurement = std::move(m);
    return t;
  }

  const fs::path& path_;
  json root_;
};

// As the published tool ranks them: by the distance to the ideal point over all candidates, those of the front alone.
void rank(DeviceFront& d, std::span<const Trial> candidates) {
  std::vector<Point> points;
  for (const Trial& t : candidates)
    points.push_back({t.measurement->losses.rank_dissimilarity, static_cast<double>(t.measurement->size_bytes)});
  d.top.clear();
  for (size_t i : nearest_to_ideal(points, points.size())) {
    bool on_front = std::any_of(d.front.begin(), d.front.end(),
                                [&](const SummaryPoint& p) { return p.trial.id == candidates[i].id; });
    if (on_front && d.top.size() < 3) d.top.push_back(candidates[i].id);
  }
  if (!d.top.empty()) d.selected = d.top.front();
}

bool is_result(const fs::path& file) {
  std::string name = file.filename().string();
  return fs::is_regular_file(file) && name.ends_with(".json") && name.find("_out") != std::string::npos;
}

}  // namespace

std::vector<fs::path> published_results(const fs::path& path) {
  std::vector<fs::path> found;
  if (fs::is_regular_file(path)) return {path};
  if (!fs::is_directory(path) || fs::exists(StudyFolder{path}.study())) return found;
  for (const auto& entry : fs::directory_iterator(path))
    if (is_result(entry.path())) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

Summary report_published(const fs::path& path, const fs::path& dir) {
  ResultFile file(path);
  std::vector<Trial> trials = file.trials();
  Summary s;
  s.header.model_path = file.title();
  s.header.model_size_bytes = trials.front().measurement->size_bytes;
  s.header.options_json = json{{"strategy", "the published tool's"}}.dump();
  Ending ending{.objectives = {"rank_dissimilarity", "size"}};
  s.objectives = ending.objectives;
  static_cast<DeviceFront&>(s) = front_of_trials("as published", trials, ending, dir);
  name_points(s);
  rank(s, std::span(trials).subspan(1));
  s.sensitivity = file.sensitivity();
  s.evaluations = static_cast<int64_t>(trials.size());
  s.notes = {
      fmt::format("figures of {}, made by the published tool: sizes are rounded to 0.01 MB, times are means, "
                  "losses other than rank_dissimilarity were not kept",
                  path.filename().string())};
  write_file_atomic(StudyFolder{dir}.summary(), summary_to_json(s));
  write_report(s, dir);
  return s;
}

}  // namespace seqto
