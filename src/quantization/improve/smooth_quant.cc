// SmoothQuant: activations with outlier channels made easier to quantize at the cost of the weights that read them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/calibration/channel_means.h"
#include "quantization/improve/smooth_alpha.h"
#include "quantization/improve/smooth_groups.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

using namespace internal;

constexpr const char* kSuffix = "_smooth";

class Smoother {
 public:
  Smoother(const Model& model, const RewriteOptions& options) : model_(model), options_(options) {
    Graph& graph = model_.graph;
    for (Initializer& i : graph.initializers) constants_[i.name] = &i.tensor, names_.insert(i.name);
    for (const ValueInfo& v : graph.inputs) names_.insert(v.name);
    for (const Node& n : graph.nodes) {
      names_.insert(n.name);
      names_.insert(n.outputs.begin(), n.outputs.end());
    }
  }

  void smooth_group(const SmoothGroup& group, const std::vector<float>& maxima, const Eigen::MatrixXf* rows) {
    SmoothLayers layers = layers_of(group, maxima, rows != nullptr);
    auto factors =
        rows ? best_factors(layers, *rows, options_.per_channel) : smooth_factors(layers, *options_.smooth_alpha);
    if (factors.empty()) return;
    for (const ChannelConstant& r : group.readers) scale(r, factors, false);
    for (const ChannelConstant& f : group.folds) scale(f, factors, true);
    if (group.folds.empty()) add_mul(group, factors);
    ++(group.folds.empty() ? multiplied_ : folded_);
  }

  Model finish(size_t found, const Env& env) {
    insert_muls();
    for (Initializer& i : added_) model_.graph.initializers.push_back(std::move(i));
    env.log(LogLevel::kInfo, fmt::format("smoothed {} of {} activations: {} folded into the layer before, {} by a Mul",
                                         folded_ + multiplied_, found, folded_, multiplied_));
    return std::move(model_);
  }

 private:
  Tensor& constant(const ChannelConstant& c) { return *constants_.at(model_.graph.nodes[c.node].inputs[c.input]); }

  void scale(const ChannelConstant& c, const std::vector<float>& factors, bool divide) {
    constant(c) = scaled(constant(c), c.axis, factors, divide);
  }

  SmoothLayers layers_of(const SmoothGroup& group, const std::vector<float>& maxima, bool with_weights) {
    size_t channels = static_cast<size_t>(group.channels);
    SmoothLayers layers{maxima, std::vector<float>(channels), {}};
    for (const ChannelConstant& r : group.readers) {
      const Tensor& weight = constant(r);
      auto values = weight.values<float>();
      size_t inner = r.axis == 0 ? static_cast<size_t>(weight.dims()[1]) : 1;
      for (size_t i = 0; i < values.size(); ++i) {
        float& largest = layers.weight[i / inner % channels];
        largest = std::max(largest, std::abs(values[i]));
      }
      if (!with_weights) continue;
      using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
      Eigen::Map<const RowMajor> matrix(values.data(), weight.dims()[0], weight.dims()[1]);
      if (r.axis == 0) layers.weights.emplace_back(matrix);
      else layers.weights.emplace_back(matrix.transpose());
    }
    return layers;
  }

  std::string fresh(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  void add_mul(const SmoothGroup& group, const std::vector<float>& factors) {
    std::vector<float> inverse(factors.size());
    std::ranges::transform(factors, inverse.begin(), [](float f) { return 1 / f; });
    std::string output = fresh(group.tensor + kSuffix), values = fresh(output + "_factors");
    added_.push_back({values, float_tensor({group.channels}, std::move(inverse))});
    describe(output, group.tensor);
    size_t first = group.readers[0].node;
    for (const ChannelConstant& r : group.readers) {
      model_.graph.nodes[r.node].inputs[0] = output;
      first = std::min(first, r.node);
    }
    muls_[first].push_back({output, "Mul", "", {group.tensor, values}, {output}, {}, {}});
  }

  // Type and shape are those of the tensor that is divided.
  void describe(const std::string& output, const std::string& tensor) {
    Graph& graph = model_.graph;
    for (const auto* list : {&graph.value_info, &graph.inputs, &graph.outputs})
      for (const ValueInfo& v : *list)
        if (v.name == tensor) {
          graph.value_info.push_back({output, v.type, v.shape, ""});
          return;
        }
  }

  // Each in front of its first reader; only now, since the groups count the nodes as they were.
  void insert_muls() {
    std::vector<Node> nodes;
    for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
      if (auto it = muls_.find(n); it != muls_.end()) std::ranges::move(it->second, std::back_inserter(nodes));
      nodes.push_back(std::move(model_.graph.nodes[n]));
    }
    model_.graph.nodes = std::move(nodes);
  }

  Model model_;
  const RewriteOptions& options_;
  std::unordered_map<std::string, Tensor*> constants_;
  std::unordered_set<std::string> names_;
  std::unordered_map<size_t, std::vector<Node>> muls_;
  std::vector<Initializer> added_;
  int folded_ = 0, multiplied_ = 0;
};

void require_finite(const std::vector<float>& maxima, const std::string& tensor) {
  if (std::ranges::all_of(maxima, [](float m) { return std::isfinite(m); })) return;
  throw Error(Code::kInvalidInput, fmt::format("[quantize] tensor '{}' holds NaN or infinity; finite values were "
                                               "expected; check the model and the preprocessing",
                                               tensor));
}

}  // namespace

Model smooth(const Model& model, const SampleRun& on, const RewriteOptions& options) {
  if (options.smooth_alpha && !(*options.smooth_alpha >= 0 && *options.smooth_alpha <= 1))
    throw Error(Code::kUsage,
                fmt::format("[quantize] alpha {} found; a number from 0 to 1 was expected", *options.smooth_alpha));
  const GraphView view(model);
  auto groups = find_smooth_groups(model, view, options.quantized_ops);
  size_t found = groups.size();
  Smoother smoother(model, options);
  if (options.readers)
    std::erase_if(groups, [&](const SmoothGroup& group) {
      return std::ranges::none_of(group.readers, [&](const ChannelConstant& reader) {
        return options.readers(model.graph.nodes[reader.node].name);
      });
    });
  // A Mul behind an operator that has a quantized output would come too late.
  const auto& ops = options.quantized_ops;
  std::erase_if(groups, [&](const SmoothGroup& group) {
    const Node* producer = group.folds.empty() ? view.edges.producer(group.tensor) : nullptr;
    return producer && std::ranges::find(ops, producer->op_type) != ops.end();
  });
  if (groups.empty() || on.samples.empty()) return smoother.finish(found, on.env);
  std::vector<ChannelTensor> tensors;
  std::vector<std::string> names;
  for (const SmoothGroup& g : groups)
    tensors.push_back({.name = g.tensor, .last_of = g.channels}), names.push_back(g.tensor);
  auto maxima = channel_maxima(model, tensors, on);
  std::vector<Eigen::MatrixXf> rows;
  if (!options.smooth_alpha) rows = activation_rows(model, names, on);
  for (size_t g = 0; g < groups.size(); ++g) {
    require_finite(maxima[g], groups[g].tensor);
    smoother.smooth_group(groups[g], maxima[g], rows.empty() ? nullptr : &rows[g]);
  }
  return smoother.finish(found, on.env);
}

std::vector<LayerId> smoothing_layers(const Model& model) {
  std::vector<LayerId> layers;
  for (const Node& n : model.graph.nodes)
    if (is_mul(n) && n.inputs.size() == 2 && n.name == n.outputs[0] && n.name.find(kSuffix) != std::string::npos &&
        n.inputs[1].starts_with(n.name + "_factors"))
      layers.push_back(n.name);
  return layers;
}

}  // namespace seqto
