#include "orchestrator/study/notes.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/texts.h"
#include "seqto/error.h"

namespace seqto {

using nlohmann::json;

static void to_json(json& j, const Range& r) { j = {r.lowest, r.highest}; }
static void from_json(const json& j, Range& r) { j.at(0).get_to(r.lowest), j.at(1).get_to(r.highest); }

static void to_json(json& j, const Latency& l) {
  j = {l.median_ns, l.p10_ns, l.p90_ns};
  if (const auto& ratio = l.over_float)
    for (const double value : {ratio->value, ratio->interval.low, ratio->interval.high}) j.push_back(value);
}
static void from_json(const json& j, Latency& l) {
  l = {.median_ns = j.at(0), .p10_ns = j.at(1), .p90_ns = j.at(2)};
  if (j.size() > 3) l.over_float = {j.at(3), {j.at(4), j.at(5)}};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Limit, figure, bound, at_most, asked_by)

static void to_json(json& j, const NodePlacement& n) { j = {n.node, n.op_type, n.provider}; }
static void from_json(const json& j, NodePlacement& n) { n = {j.at(0), j.at(1), j.at(2)}; }

static void to_json(json& j, const Layer& l) {
  std::vector<std::string_view> schemes;
  for (const Scheme scheme : l.schemes) schemes.push_back(to_string(scheme));
  j = {{"name", l.id},
       {"op_type", l.op_type},
       {"output_shape", l.output_shape},
       {"weight_bytes", l.weight_bytes},
       {"quantizable", l.quantizable},
       {"schemes", schemes},
       {"reason", l.reason}};
}
static void from_json(const json& j, Layer& l) {
  l = {.id = j.at("name"),
       .op_type = j.at("op_type"),
       .output_shape = j.at("output_shape"),
       .weight_bytes = j.at("weight_bytes"),
       .quantizable = j.at("quantizable"),
       .reason = j.at("reason")};
  if (const auto schemes = j.find("schemes"); schemes != j.end())  // studies of old versions have none
    for (const json& name : *schemes) l.schemes.push_back(parse_scheme(name.get<std::string>()));
}

static void to_json(json& j, const LayerTensors& l) {
  j = {{"name", l.layer}, {"inputs", l.inputs}, {"weights", l.weights}, {"outputs", l.outputs}};
}
static void from_json(const json& j, LayerTensors& l) {
  l = {j.at("name"), j.at("inputs"), j.at("weights"), j.at("outputs")};
}

// JSON has no NaN: an error that is not known (a tensor without a pair of its own has no qdq_err) is null there.
static double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}
static void to_json(json& j, const ActivationError& e) {
  j = {{"tensor", e.tensor}, {"qdq_err", e.qdq_err}, {"xmodel_err", e.xmodel_err}, {"score", e.score}};
}
static void from_json(const json& j, ActivationError& e) {
  e = {j.at("tensor"), number(j.at("qdq_err")), number(j.at("xmodel_err")), number(j.at("score")), {}};
}
static void to_json(json& j, const WeightError& e) { j = {{"tensor", e.tensor}, {"sqnr", e.sqnr}}; }
static void from_json(const json& j, WeightError& e) { e = {j.at("tensor"), number(j.at("sqnr")), {}}; }
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sensitivity, activations, weights)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChangedToken, sample, position, before, reference, candidate, reference_share,
                                   candidate_share)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChangedTokens, samples, changed, examples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LocalError, layer, square, variance, magnitude, worst_output, norm, relative)

static void to_json(json& j, const TensorValues& v) {
  const auto& edges = v.histogram.edges;
  j = {{"range", {v.lowest, v.highest}}, {"bins", {edges.front(), edges.back()}}, {"counts", v.histogram.counts}};
  if (const auto& q = v.quantized)
    j["quantized"] = {{"type", to_string(q->type)},
                      {"range", {q->lowest, q->highest}},
                      {"scale", q->scale},
                      {"channels", q->channels}};
}
static void from_json(const json& j, TensorValues& v) {
  v.lowest = j.at("range").at(0);
  v.highest = j.at("range").at(1);
  v.histogram.counts = j.at("counts").get<std::vector<int64_t>>();
  const float first = j.at("bins").at(0), last = j.at("bins").at(1);
  const size_t bins = v.histogram.counts.size();
  for (size_t i = 0; i <= bins; ++i)
    v.histogram.edges.push_back(i == bins ? last
                                          : first + (last - first) * static_cast<float>(i) / static_cast<float>(bins));
  if (const auto q = j.find("quantized"); q != j.end())
    v.quantized = QuantizedRange{.type = parse_data_type(q->at("type").get<std::string>()),
                                 .lowest = q->at("range").at(0),
                                 .highest = q->at("range").at(1),
                                 .scale = q->at("scale"),
                                 .channels = q->at("channels")};
}

namespace internal {

static void to_json(json& j, const SampleCounts& c) { j = {c.calibration, c.search, c.evaluation, c.not_evaluated}; }
static void from_json(const json& j, SampleCounts& c) {
  c = {j.at(0), j.at(1), j.at(2)};
  if (j.size() > 3) j[3].get_to(c.not_evaluated);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NotedValues, samples, tensors)

NLOHMANN_JSON_SERIALIZE_ENUM(OwnCorrection, {{OwnCorrection::kNone, false},
                                             {OwnCorrection::kBiases, "biases"},
                                             {OwnCorrection::kCodes, "codes"}})

static void to_json(json& j, const Ending& e) {
  j = {{"objectives", e.objectives},      {"limits", e.limits},
       {"tolerance", e.tolerance},        {"wall_seconds", e.wall_seconds},
       {"device_latencies", e.latencies}, {"notes", e.notes}};
  if (!e.decode_latencies.empty()) j["device_decode_latencies"] = e.decode_latencies;
  if (!e.task.empty()) j["task"] = e.task;
  if (!e.size_note.empty()) j["size_note"] = e.size_note;
  if (e.items_in_sample > 1) j["items_in_sample"] = e.items_in_sample;
}
static void from_json(const json& j, Ending& e) {
  e = {.objectives = j.at("objectives"), .wall_seconds = j.at("wall_seconds"), .notes = j.at("notes")};
  e.limits = j.value("limits", e.limits);
  e.tolerance = j.value("tolerance", e.tolerance);
  e.task = j.value("task", "");
  e.size_note = j.value("size_note", "");
  e.items_in_sample = j.value("items_in_sample", e.items_in_sample);
  if (j.contains("device_latencies")) j.at("device_latencies").get_to(e.latencies);
  if (j.contains("device_decode_latencies")) j.at("device_decode_latencies").get_to(e.decode_latencies);
}

namespace {

template <class T>
std::string text_of(const T& value) {
  return json(value).dump();
}
template <class T>
T value_of(const std::string& text) {
  return parse_json(text).get<T>();
}

// What writes itself.
template <>
std::string text_of(const std::string& text) {
  return text;
}
template <>
std::string value_of<std::string>(const std::string& text) {
  return text;
}
template <>
std::string text_of(const WhatIf& what_if) {
  return what_if_to_json(what_if);
}
template <>
WhatIf value_of<WhatIf>(const std::string& text) {
  return what_if_from_json(text);
}

// The longest notes, so they are written densely.
template <>
std::string text_of(const Explained& explained) {
  Texts texts;
  json layers = json::array(), plans = json::object();
  for (const auto& [id, reports] : explained) {
    json& plan = plans[id] = json::array();
    for (const LayerReport& l : reports) {
      if (layers.size() == plan.size()) layers.push_back({l.name, l.op_type});
      plan.push_back({texts.at(l.scheme), texts.at(l.reason)});
    }
  }
  return json{{"layers", layers}, {"texts", texts.list()}, {"plans", plans}}.dump();
}
template <>
Explained value_of<Explained>(const std::string& text) {
  Explained explained;
  const json parsed = parse_json(text);
  const json &texts = parsed.at("texts"), &layers = parsed.at("layers");
  for (const auto& [id, plan] : parsed.at("plans").items())
    for (size_t i = 0; i < plan.size(); ++i)
      explained[id].push_back({layers.at(i).at(0), layers.at(i).at(1), texts.at(plan[i].at(0).get<size_t>()),
                               texts.at(plan[i].at(1).get<size_t>())});
  return explained;
}

}  // namespace

template <class T>
std::optional<T> Note<T>::in(const Study& study) const {
  const std::string* text = study.noted(kind);
  if (!text) return {};
  try {
    return value_of<T>(*text);
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[study] the note '{}' as no seqto writes it found ({}); a study as `seqto tune` wrote it "
                            "expected; take the line out of study.jsonl, or begin anew with --no-resume",
                            kind, error.what()));
  }
}
template <class T>
void Note<T>::add(Study& study, const T& value) const {
  study.note(kind, text_of(value));
}

template struct Note<bool>;
template struct Note<std::string>;
template struct Note<std::vector<double>>;
template struct Note<SampleCounts>;
template struct Note<std::vector<Layer>>;
template struct Note<Ranges>;
template struct Note<OwnCorrection>;
template struct Note<std::map<std::string, std::vector<NodePlacement>>>;
template struct Note<WhatIf>;
template struct Note<Sensitivity>;
template struct Note<std::vector<LocalError>>;
template struct Note<std::vector<LayerTensors>>;
template struct Note<NotedValues>;
template struct Note<Explained>;
template struct Note<ChangedTokens>;
template struct Note<Ending>;

}  // namespace internal
}  // namespace seqto
