#include "orchestrator/latency_model.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "search/assignments.h"

namespace seqto::internal {
namespace {

constexpr int kRuns = 15;

// Finds the group of a node of the runtime's graph: its name begins with the name of a layer or of one of its outputs,
// after which the runtime wrote what it made of it ("conv1_nchwc", "conv1_token_4").
class Owners {
 public:
  Owners(const Model& model, const std::vector<SearchGroup>& groups) {
    std::unordered_map<LayerId, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g)
      for (const LayerId& layer : groups[g].layers) group_of[layer] = g;
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

// Nanoseconds that an element of a tensor costs to quantize or to turn back, in the profile of a quantized model.
double conversion_cost(const std::vector<NodePlacement>& profile,
                       const std::unordered_map<std::string, double>& elements) {
  double ns = 0, count = 0;
  for (const NodePlacement& node : profile) {
    if (node.op_type != "QuantizeLinear" && node.op_type != "DequantizeLinear") continue;
    const auto found = elements.find(node.node.substr(0, node.node.rfind('_')));
    if (found == elements.end()) continue;
    ns += static_cast<double>(node.ns);
    count += found->second;
  }
  constexpr double kUsual = 0.4;  // one x86 core
  return count > 0 ? ns / count : kUsual;
}

}  // namespace

LatencyModel::LatencyModel(const Model& model, const std::vector<SearchGroup>& groups) : groups_(groups) {
  std::unordered_map<LayerId, size_t> group_of;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const LayerId& layer : groups_[g].layers) group_of[layer] = g;
  const auto elements = tensor_elements(model);
  std::unordered_map<std::string, const Node*> producers;
  for (const Node& node : model.graph.nodes)
    for (const std::string& output : node.outputs) producers[output] = &node;
  for (const Node& node : model.graph.nodes)
    for (const std::string& input : node.inputs) {
      const auto producer = producers.find(input);
      const auto size = elements.find(input);
      if (producer == producers.end() || size == elements.end()) continue;
      const auto from = group_of.find(producer->second->name), to = group_of.find(node.name);
      if (from == group_of.end() || to == group_of.end() || from->second == to->second) continue;
      edges_.push_back({from->second, to->second, size->second});
    }
}

std::optional<LatencyModel> LatencyModel::profiled(const Model& model, const std::vector<SearchGroup>& groups,
                                                   const std::function<Model(const Plan&)>& candidate, Runner& runner,
                                                   std::span<const Tensor> inputs) {
  LatencyModel result(model, groups);
  const Owners owners(model, groups);
  const auto elements = tensor_elements(model);
  const SearchSpace space{.groups = groups};
  const Assignments assignments(space);
  std::vector<DetailedScheme> schemes = assignments.schemes();
  schemes.insert(schemes.begin(), DetailedScheme());
  for (const DetailedScheme& detailed : schemes) {
    const Scheme scheme = detailed.scheme;
    if (result.times_.contains(scheme)) continue;  // fields are taken to cost no time
    const Plan plan = assignments.plan(assignments.uniform(detailed));
    const auto profile = runner.placement(candidate(plan), inputs, kRuns);
    if (profile.empty()) return {};
    std::vector<double>& times = result.times_[scheme];
    times.resize(groups.size());
    double rest = 0;
    for (const NodePlacement& node : profile) {
      const auto group = owners.find(node.node);
      (group ? times[*group] : rest) += static_cast<double>(node.ns);
    }
    if (scheme == Scheme::kFloat32) result.rest_ = rest;
    if (scheme == Scheme::kInt8) result.conversion_ = conversion_cost(profile, elements);
  }
  return result;
}

LatencyModel::Terms LatencyModel::terms(const Plan& plan) const {
  Terms terms{0, 0, 0, rest_};
  std::vector<Scheme> schemes(groups_.size(), Scheme::kFloat32);
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const LayerId& layer : groups_[g].layers)
      if (const auto found = plan.schemes.find(layer); found != plan.schemes.end()) schemes[g] = found->second;
    const auto times = times_.find(schemes[g]);
    terms[is_static(schemes[g]) ? 1 : 0] += (times == times_.end() ? times_.at(Scheme::kFloat32) : times->second)[g];
  }
  for (const Edge& edge : edges_)
    if (is_static(schemes[edge.from]) != is_static(schemes[edge.to])) terms[2] += conversion_ * edge.elements;
  return terms;
}

double LatencyModel::predict(const Plan& plan) const {
  const Terms all = terms(plan);
  double ns = 0;
  for (size_t i = 0; i < kTerms; ++i) ns += weights_[i] * all[i];
  return ns;
}

// Ridge regression of relative residuals towards the profile as it is: weights of 1, half as a standard deviation.
void LatencyModel::fit(std::span<const Measured> measured) {
  constexpr double kNoise = 0.03, kDeviation = 0.5, kLeast = 0.1;
  Eigen::Matrix<double, kTerms, kTerms> normal = Eigen::Matrix<double, kTerms, kTerms>::Identity();
  normal *= 1 / (kDeviation * kDeviation);
  Eigen::Matrix<double, kTerms, 1> right = Eigen::Matrix<double, kTerms, 1>::Zero();
  for (const Measured& m : measured) {
    const Terms all = terms(m.plan);
    const Eigen::Map<const Eigen::Matrix<double, kTerms, 1>> row(all.data());
    const double scale = 1 / (kNoise * m.ns);
    normal += scale * scale * row * row.transpose();
    right += scale * scale * row * (m.ns - row.sum());
  }
  const Eigen::Matrix<double, kTerms, 1> x = normal.ldlt().solve(right);
  for (size_t i = 0; i < kTerms; ++i) weights_[i] = std::max(kLeast, 1 + x[static_cast<Eigen::Index>(i)]);
}

double LatencyModel::cross_validated_error(std::span<const Measured> measured) const {
  double sum = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    std::vector<Measured> others(measured.begin(), measured.end());
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    LatencyModel fitted = *this;
    fitted.fit(others);
    sum += std::abs(fitted.predict(measured[i].plan) - measured[i].ns) / measured[i].ns;
  }
  return measured.empty() ? 0 : sum / static_cast<double>(measured.size());
}

std::string LatencyModel::to_json() const {
  nlohmann::json json{{"rest", rest_}, {"conversion", conversion_}, {"weights", weights_}};
  for (const auto& [scheme, times] : times_) json["times"][std::string(to_string(scheme))] = times;
  return json.dump();
}

LatencyModel LatencyModel::from_json(const std::string& text, const Model& model,
                                     const std::vector<SearchGroup>& groups) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LatencyModel result(model, groups);
  json.at("rest").get_to(result.rest_);
  json.at("conversion").get_to(result.conversion_);
  json.at("weights").get_to(result.weights_);
  for (const auto& [scheme, times] : json.at("times").items()) times.get_to(result.times_[parse_scheme(scheme)]);
  return result;
}

}  // namespace seqto::internal
