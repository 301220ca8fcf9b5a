#include "search/latency/latency_model.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>

#include "base/json.h"
#include "model/graph_view.h"
#include "search/strategies/assignments.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr int kRuns = 15;
enum : size_t { kFloat, kInt8, kConverted, kConversions, kCommon };  // features of every plan

std::unordered_map<LayerId, size_t> groups_by_layer(const std::vector<SearchGroup>& groups) {
  std::unordered_map<LayerId, size_t> result;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const LayerId& layer : groups[g].layers) result[layer] = g;
  return result;
}

// Finds the group of a node of the runtime's graph: its name begins with the name of a layer or of one of its outputs,
// after which the runtime wrote what it made of it ("conv1_nchwc", "conv1_token_4").
class Owners {
 public:
  Owners(const Model& model, const std::vector<SearchGroup>& groups) {
    const auto group_of = groups_by_layer(groups);
    for (const Node& node : model.graph.nodes) {
      const auto group = group_of.find(node.name);
      if (group == group_of.end()) continue;
      names_.try_emplace(node.name, group->second);
      for (const std::string& output : node.outputs)
        if (!output.empty()) names_.try_emplace(output, group->second);
    }
  }

  std::optional<size_t> find(std::string name) const {
    for (;;) {
      if (const auto found = names_.find(name); found != names_.end()) return found->second;
      const size_t end = name.find_last_of("_/:.");
      if (end == std::string::npos || end == 0) return {};
      name.resize(end);
    }
  }

 private:
  std::unordered_map<std::string, size_t> names_;
};

// Elements of the tensors whose shape is known.
std::unordered_map<std::string, double> tensor_elements(const Model& model) {
  std::unordered_map<std::string, double> elements;
  for (const auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info})
    for (const ValueInfo& info : *infos) {
      if (!info.shape) continue;
      double count = 1;
      for (const Dimension& d : *info.shape) count *= static_cast<double>(std::max<int64_t>(1, d.value));
      elements[info.name] = count;
    }
  return elements;
}

// None where the runtime does not tell, or does not take a candidate: its trial says why.
std::vector<NodePlacement> profile_of(const std::function<Model(const Plan&)>& candidate, const Plan& plan,
                                      Runner& runner, std::span<const Tensor> inputs) {
  try {
    return runner.placement(candidate(plan), inputs, kRuns);
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    if (plan.schemes.empty() || error.code() == Code::kInterrupted) throw;
    return {};
  }
}

double sum(const std::vector<double>& values) { return std::reduce(values.begin(), values.end()); }

}  // namespace

LatencyModel::LatencyModel(const Source& source) : tuning_(source.tuning), groups_(source.groups) {
  const auto group_of = groups_by_layer(groups_);
  const auto elements = tensor_elements(source.model);
  const Edges edges(source.model.graph);
  for (const Node& node : source.model.graph.nodes)
    for (const std::string& input : node.inputs) {
      const Node* producer = edges.producer(input);
      const auto size = elements.find(input);
      if (!producer || size == elements.end()) continue;
      const auto from = group_of.find(producer->name), to = group_of.find(node.name);
      if (from == group_of.end() || to == group_of.end() || from->second == to->second) continue;
      edges_.push_back({from->second, to->second, size->second});
    }
}

std::optional<LatencyModel> LatencyModel::profiled(const Source& source,
                                                   const std::function<Model(const Plan&)>& candidate, Runner& runner,
                                                   std::span<const Tensor> inputs) {
  LatencyModel result(source);
  const auto& groups = source.groups;
  const Owners owners(source.model, groups);
  const SearchSpace space{.groups = groups};
  const Assignments assignments(space);
  std::vector<DetailedScheme> schemes = assignments.schemes();
  schemes.insert(schemes.begin(), DetailedScheme());
  for (const DetailedScheme& detailed : schemes) {
    const Scheme scheme = detailed.scheme;
    if (result.profiles_.contains(scheme)) continue;  // fields are taken to cost no time
    const Plan plan = assignments.plan(assignments.uniform(detailed));
    const auto profile = profile_of(candidate, plan, runner, inputs);
    if (profile.empty() && scheme == Scheme::kFloat32) return {};
    if (profile.empty()) continue;  // as in float
    Profile& own = result.profiles_[scheme];
    own.ns.resize(groups.size());
    own.nodes.resize(groups.size());
    size_t group = 0;  // what the runtime put in ("ReorderOutput_token_3") runs beside what it is for
    for (const NodePlacement& node : profile) {
      group = owners.find(node.node).value_or(group);
      own.ns[group] += static_cast<double>(node.ns);
      own.nodes[group] += 1;
    }
  }
  // What weight-only schemes change of a convolution the runtime has folded before it runs: what the profile says of
  // single groups is its noise, which a search would take for a gain.
  constexpr double kNoise = 0.1;
  const Profile& in_float = result.profiles_.at(Scheme::kFloat32);
  const double whole = sum(in_float.ns);
  for (auto& [scheme, own] : result.profiles_)
    if (!is_static(scheme) && std::abs(sum(own.ns) - whole) < kNoise * whole) own = in_float;
  result.fit();
  return result;
}

LatencyModel::Schemes LatencyModel::schemes(const Plan& plan) const {
  Schemes schemes(groups_.size(), Scheme::kFloat32);
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const LayerId& layer : groups_[g].layers)
      if (const auto found = plan.schemes.find(layer); found != plan.schemes.end()) schemes[g] = found->second;
  return schemes;
}

LatencyModel::Schemes LatencyModel::uniform(Scheme scheme) const {
  Schemes schemes(groups_.size(), Scheme::kFloat32);
  for (size_t g = 0; g < groups_.size(); ++g)
    if (std::ranges::count(groups_[g].schemes, scheme, &DetailedScheme::scheme) > 0) schemes[g] = scheme;
  return schemes;
}

// Timed, a uniform plan takes less than its profile says, which counts for every node what it costs to be looked at.
double LatencyModel::overhead(Scheme scheme) const {
  const Profile& profile = profiles_.at(scheme);
  const auto found = measured_.find(uniform(scheme));
  if (found == measured_.end()) return scheme == Scheme::kFloat32 ? 0 : overhead(Scheme::kFloat32);
  const double nodes = sum(profile.nodes);
  return nodes > 0 ? (sum(profile.ns) - found->second) / nodes : 0;
}

// Time in groups that compute in float, in int8, what conversions take by their elements and by their number; then a
// static group's time, for each group.
std::vector<double> LatencyModel::features(const Schemes& schemes) const {
  constexpr double kElement = 0.4, kNode = 500;  // ns that a conversion usually takes
  const size_t groups = groups_.size();
  std::vector<double> features(kCommon + groups, 0.0);
  for (size_t g = 0; g < groups; ++g) {
    auto found = profiles_.find(schemes[g]);
    if (found == profiles_.end()) found = profiles_.find(Scheme::kFloat32);
    const auto& [scheme, profile] = *found;
    const double time = profile.ns[g] - overheads_.at(scheme) * profile.nodes[g];
    features[is_static(schemes[g]) ? kInt8 : kFloat] += time;
    if (is_static(schemes[g])) features[kCommon + g] = time;
  }
  for (const Edge& edge : edges_)
    if (is_static(schemes[edge.from]) != is_static(schemes[edge.to])) {
      features[kConverted] += kElement * edge.elements;
      features[kConversions] += kNode;
    }
  return features;
}

std::vector<double> LatencyModel::deviations() const {
  std::vector<double> deviations(kCommon, tuning_.latency_prior);
  deviations.resize(kCommon + groups_.size(), tuning_.latency_group);
  return deviations;
}

double LatencyModel::predict(const Plan& plan) const {
  const std::vector<double> all = features(schemes(plan));
  return std::inner_product(all.begin(), all.end(), weights_.begin(), 0.0);
}

std::optional<double> LatencyModel::measured(const Plan& plan) const {
  const auto found = measured_.find(schemes(plan));
  return found == measured_.end() ? std::nullopt : std::optional(found->second);
}

void LatencyModel::learn(std::span<const Measured> measured) {
  for (const Measured& m : measured) measured_[schemes(m.plan)] = m.ns;
  fit();
}

// Gaussian regression towards the profile as it is, in its dual form: there are more groups than measurements.
void LatencyModel::fit() {
  for (const auto& [scheme, profile] : profiles_) overheads_[scheme] = overhead(scheme);
  const std::vector<double> deviation = deviations();
  weights_.assign(deviation.size(), 0.0);
  std::fill_n(weights_.begin(), size_t{kCommon}, 1.0);
  const auto rows = static_cast<Eigen::Index>(measured_.size()), columns = std::ssize(deviation);
  if (rows == 0) return;
  const auto prior = Eigen::Map<Eigen::VectorXd>(weights_.data(), columns);
  Eigen::MatrixXd design(rows, columns);
  Eigen::VectorXd beyond(rows), noise(rows);
  Eigen::Index row = 0;
  for (const auto& [chosen, ns] : measured_) {
    const std::vector<double> all = features(chosen);
    design.row(row) = Eigen::Map<const Eigen::RowVectorXd>(all.data(), columns);
    beyond[row] = ns - design.row(row).dot(prior);
    noise[row] = std::pow(tuning_.latency_noise * ns, 2);
    ++row;
  }
  const Eigen::Map<const Eigen::VectorXd> spread(deviation.data(), columns);
  const Eigen::MatrixXd gain = spread.array().square().matrix().asDiagonal() * design.transpose();
  Eigen::MatrixXd covariance = design * gain;
  covariance.diagonal() += noise;
  Eigen::Map<Eigen::VectorXd>(weights_.data(), columns) += gain * covariance.ldlt().solve(beyond);
}

std::string LatencyModel::to_json() const {
  nlohmann::json json;
  for (const auto& [scheme, profile] : profiles_) {
    const std::string name(to_string(scheme));
    json["times"][name] = profile.ns;
    json["nodes"][name] = profile.nodes;
  }
  json["measured"] = nlohmann::json::array();
  for (const auto& [chosen, ns] : measured_) {
    nlohmann::json names;
    for (const Scheme scheme : chosen) names.push_back(to_string(scheme));
    json["measured"].push_back({{"schemes", std::move(names)}, {"ns", ns}});
  }
  return json.dump();
}

LatencyModel LatencyModel::from_json(const std::string& text, const Source& source) {
  const size_t groups = source.groups.size();
  const auto refuse = [&](const std::string& found) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[study] a model of latencies with {} found, times of {} groups in float32 and other schemes "
                    "expected; the study is of another model, or was changed: begin a new one",
                    found, groups));
  };
  const auto of_each_group = [&](size_t count) {
    if (count != groups) refuse(fmt::format("{} groups", count));
  };
  LatencyModel result(source);
  try {
    const nlohmann::json json = parse_json(text);
    for (const auto& [scheme, times] : json.at("times").items()) {
      Profile& profile = result.profiles_[parse_scheme(scheme)];
      times.get_to(profile.ns);
      if (json.contains("nodes")) json.at("nodes").at(scheme).get_to(profile.nodes);
      else profile.nodes.resize(groups);  // older studies did not count them
      of_each_group(profile.ns.size());
      of_each_group(profile.nodes.size());
    }
    for (const auto& one : json.value("measured", nlohmann::json::array())) {
      Schemes chosen;
      for (const auto& name : one.at("schemes")) chosen.push_back(parse_scheme(name.get<std::string>()));
      of_each_group(chosen.size());
      one.at("ns").get_to(result.measured_[chosen]);
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(fmt::format("\"{}\"", error.what()));
  }
  if (!result.profiles_.contains(Scheme::kFloat32)) refuse("no profile in float32");
  result.fit();
  return result;
}

}  // namespace seqto::internal
