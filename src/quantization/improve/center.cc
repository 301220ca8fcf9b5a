// Channels moved to the middle of their ranges.
#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_map>

#include "model/op_traits.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/improve/channel_groups.h"
#include "quantization/improve/channel_shifts.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

using Eigen::Index;
using Eigen::MatrixXd;

// By how much each writer's channels are lowered: the least squares under which all tensors, those behind Adds too,
// come near to zero in the middle, each measured by its widest channel. A row a writer; nothing where values are not
// finite.
MatrixXd solve(const std::vector<MovableTensor>& tensors, const std::map<size_t, Index>& rows,
               const std::vector<ChannelRange>& ranges) {
  int64_t most = 0;
  for (const MovableTensor& t : tensors) most = std::max(most, t.channels);
  const auto writers = static_cast<Index>(rows.size());
  MatrixXd normal = MatrixXd::Zero(writers, writers), right = MatrixXd::Zero(writers, most);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const ChannelRange& range = ranges[t];
    if (std::ssize(range.lowest) != tensors[t].channels) return {};
    Eigen::RowVectorXd middle = Eigen::RowVectorXd::Zero(most);
    double widest = 0;
    for (size_t c = 0; c < range.lowest.size(); ++c) {
      const double low = range.lowest[c], high = range.highest[c];
      middle(static_cast<Index>(c)) = (low + high) / 2;
      widest = std::max(widest, high - low);
    }
    if (!std::isfinite(widest) || !middle.allFinite()) return {};
    const double trust = 1 / std::max(widest * widest, 1e-12);
    for (auto [a, times] : tensors[t].writers) {
      right.row(rows.at(a)) += trust * times * middle;
      for (auto [b, others] : tensors[t].writers) normal(rows.at(a), rows.at(b)) += trust * times * others;
    }
  }
  // Not singular: every writer has a tensor of its own.
  return normal.ldlt().solve(right);
}

// What such a layer reads, and what is linked with that by a writer; the rest stays where it is.
void keep_read_by(ChannelShifts& found, const std::function<bool(size_t)>& asks) {
  std::set<std::string> moved;
  for (const auto& [reader, tensor] : found.readers)
    if (asks(reader)) moved.insert(tensor);
  std::set<size_t> writers;
  for (bool grows = true; grows;) {
    const size_t before = moved.size() + writers.size();
    for (const MovableTensor& t : found.tensors) {
      const auto is_moved = [&](const auto& w) { return writers.contains(w.first); };
      if (!moved.contains(t.tensor.name) && std::ranges::none_of(t.writers, is_moved)) continue;
      moved.insert(t.tensor.name);
      for (const auto& [writer, times] : t.writers) writers.insert(writer);
    }
    grows = moved.size() + writers.size() > before;
  }
  std::erase_if(found.tensors, [&](const MovableTensor& t) { return !moved.contains(t.tensor.name); });
  std::erase_if(found.readers, [&](const auto& reader) { return !moved.contains(reader.second); });
}

class Centerer {
 public:
  Centerer(const Model& model, const Edges& edges) : model_(model), edges_(edges) {
    for (const Initializer& i : model_.graph.initializers) weights_[i.name] = i.tensor;
  }

  Model run(const ChannelShifts& found, const std::map<size_t, Index>& rows, const MatrixXd& shifts) {
    std::unordered_map<std::string, std::vector<double>> moved;
    for (const MovableTensor& t : found.tensors) {
      std::vector<double>& by = moved[t.tensor.name];
      by.resize(static_cast<size_t>(t.channels));
      for (auto [writer, times] : t.writers)
        for (size_t c = 0; c < by.size(); ++c) by[c] += times * shifts(rows.at(writer), static_cast<Index>(c));
    }
    for (auto [writer, row] : rows) {
      std::vector<double> by = moved.at(node(writer).outputs[0]);
      for (double& v : by) v = -v;
      add_to_bias(writer, by);
    }
    for (const auto& [reader, name] : found.readers) add_to_bias(reader, weighted(node(reader), moved.at(name)));
    for (Initializer& i : model_.graph.initializers)
      if (auto it = weights_.find(i.name); it != weights_.end()) i.tensor = it->second;
    for (const std::string& name : added_) model_.graph.initializers.push_back({name, weights_.at(name)});
    return std::move(model_);
  }

 private:
  Node& node(size_t i) { return model_.graph.nodes[i]; }

  // What the layer makes of one value in each channel.
  std::vector<double> weighted(const Node& n, const std::vector<double>& by) const {
    const Tensor& weight = weights_.at(n.inputs[1]);
    const size_t out = written_axis(n, weight)->axis, in = read_axis(n, weight)->axis;
    const auto& dims = weight.dims();
    auto stride = [&](size_t axis) { return strides(dims, static_cast<int64_t>(axis)).inner; };
    const size_t outputs = static_cast<size_t>(dims[out]), out_stride = stride(out), in_stride = stride(in);
    std::vector<double> result(outputs);
    auto values = weight.values<float>();
    for (size_t i = 0; i < values.size(); ++i)
      result[i / out_stride % outputs] += values[i] * by[i / in_stride % by.size()];
    return result;
  }

  void add_to_bias(size_t i, const std::vector<double>& by) {
    Node& n = node(i);
    std::vector<float> values(by.size());
    std::vector<int64_t> dims{std::ssize(by)};
    if (bias_input(n)) {
      const Tensor& bias = weights_.at(n.inputs[2]);
      const std::vector<float> old = to_floats(bias);
      for (size_t c = 0; c < values.size(); ++c) values[c] = old[old.size() == 1 ? 0 : c];
      if (old.size() == by.size()) dims = bias.dims();
    }
    for (size_t c = 0; c < values.size(); ++c) values[c] = static_cast<float>(values[c] + by[c]);
    n.inputs.resize(std::max<size_t>(n.inputs.size(), 3));
    if (std::string& name = n.inputs[2]; name.empty() || edges_.uses(name) > 1 + copies_[name]) {
      ++copies_[name];
      name = n.name + "_centered_bias";
      added_.push_back(name);
    }
    weights_[n.inputs[2]] = float_tensor(std::move(dims), std::move(values));
  }

  Model model_;
  const Edges& edges_;  // as they were
  std::unordered_map<std::string, Tensor> weights_;
  std::unordered_map<std::string, size_t> copies_;  // of shared biases, by who read them
  std::vector<std::string> added_;
};

}  // namespace

Model center(const Model& model, const SampleRun& on, const RewriteOptions& options) {
  const GraphView index(model);
  ChannelShifts found = find_channel_shifts(model, index);
  if (options.readers) keep_read_by(found, [&](size_t node) { return options.readers(model.graph.nodes[node].name); });
  if (found.readers.empty() || on.samples.empty()) return model;
  std::vector<ChannelTensor> tensors;
  std::map<size_t, Index> rows;
  for (const MovableTensor& t : found.tensors) {
    tensors.push_back(t.tensor);
    for (auto [writer, times] : t.writers) rows.emplace(writer, 0);
  }
  Index row = 0;
  for (auto& [writer, own] : rows) own = row++;
  const MatrixXd shifts = solve(found.tensors, rows, channel_ranges(model, tensors, on));
  return shifts.size() == 0 ? model : Centerer(model, index.edges).run(found, rows, shifts);
}

}  // namespace seqto
