// Inputs that need no data, put between those that the data give.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/shapes.h"
#include "data/state_mark.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Where an input comes from.
struct Source {
  enum class Kind { kData, kConstant, kState } kind = Kind::kData;
  Tensor constant;
};

class FilledDataset : public Dataset {
 public:
  FilledDataset(std::unique_ptr<Dataset> data, std::vector<Source> sources, StateReset reset)
      : data_(std::move(data)), sources_(std::move(sources)), reset_(reset) {}

  int64_t size() const override { return data_->size(); }
  bool has_labels() const override { return data_->has_labels(); }
  bool is_random() const override { return data_->is_random(); }
  // What carries a state goes on from the sample before.
  SampleKind kind(int64_t index) const override {
    SampleKind kind = data_->kind(index);
    const auto is_state = [](const Source& s) { return s.kind == Source::Kind::kState; };
    if ((kind.sequence < 0 || !reset_.each_file) && std::ranges::any_of(sources_, is_state)) kind.sequence = 0;
    return kind;
  }

  Sample read(int64_t index) const override {
    Sample sample = data_->read(index);
    std::vector<Tensor> given = std::move(sample.inputs);
    sample.inputs.clear();
    size_t next = 0;
    for (const Source& source : sources_) {
      if (source.kind == Source::Kind::kData) sample.inputs.push_back(given[next++]);
      else if (source.kind == Source::Kind::kConstant) sample.inputs.push_back(source.constant);
      else sample.inputs.push_back(state_mark(mark(sample, index)));
    }
    return sample;
  }

  std::string fingerprint() const override {
    std::string text = data_->fingerprint();
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].kind == Source::Kind::kConstant)
        text += fmt::format("\n{}\t{}", i, element(sources_[i].constant, 0));
      if (sources_[i].kind == Source::Kind::kState)
        text += fmt::format("\n{}\tstate\t{}\t{}", i, reset_.each_file, reset_.samples);
    }
    return sha256_hex(text);
  }

 private:
  // One more than the sample's before where the state goes on, with a gap where it does not.
  int64_t mark(const Sample& sample, int64_t index) const {
    if (!reset_.each_file) return index;
    const int64_t gaps = reset_.samples > 0 ? sample.position / reset_.samples : 0;
    return (sample.sequence << 40) + sample.position + gaps;
  }

  std::unique_ptr<Dataset> data_;
  std::vector<Source> sources_;
  StateReset reset_;
};

Tensor constant(const ValueInfo& input, double value, std::span<const ValueInfo> inputs) {
  const std::vector<int64_t> dims = closed_shape(input, inputs);
  size_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
  return convert(Tensor::from(DataType::kDouble, dims, std::vector<double>(count, value)), input.type,
                 fmt::format("the constant input '{}'", input.name));
}

}  // namespace

Tensor state_mark(int64_t mark) { return int64_tensor({}, {mark}); }

bool may_be_state_mark(const Tensor& input) { return input.type() == DataType::kInt64 && input.dims().empty(); }

std::vector<ValueInfo> inputs_from_data(std::span<const ValueInfo> inputs, const DatasetOptions& options) {
  std::vector<std::string> names, others;
  for (const ValueInfo& input : inputs) names.push_back(input.name);
  for (const auto& [name, value] : options.constants) others.push_back(name);
  for (const StateLink& state : options.states) others.push_back(state.input);
  std::sort(others.begin(), others.end());
  for (size_t i = 0; i < others.size(); ++i) {
    if (i > 0 && others[i] == others[i - 1]) {
      throw Error(Code::kUsage,
                  fmt::format("[data] the input {} found twice; one --input or --state for it expected", others[i]));
    }
    if (std::find(names.begin(), names.end(), others[i]) != names.end()) continue;
    throw Error(Code::kUsage, fmt::format("[data] the input {} found in --input or --state; one of the model's inputs "
                                          "{} expected",
                                          others[i], fmt::join(names, ", ")));
  }
  std::vector<ValueInfo> open(inputs.begin(), inputs.end());
  std::erase_if(open,
                [&](const ValueInfo& input) { return std::binary_search(others.begin(), others.end(), input.name); });
  if (open.empty()) {
    throw Error(Code::kUsage,
                "[data] a constant or a state for every input found; at least one from the data expected");
  }
  return open;
}

std::unique_ptr<Dataset> fill_inputs(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options) {
  if (options.constants.empty() && options.states.empty()) return data;
  std::vector<Source> sources;
  for (const ValueInfo& input : inputs) {
    const auto constant_of = options.constants.find(input.name);
    const bool state = std::any_of(options.states.begin(), options.states.end(),
                                   [&](const StateLink& link) { return link.input == input.name; });
    if (constant_of != options.constants.end()) {
      sources.push_back({Source::Kind::kConstant, constant(input, constant_of->second, inputs)});
    } else {
      sources.push_back({state ? Source::Kind::kState : Source::Kind::kData, {}});
    }
  }
  return std::make_unique<FilledDataset>(std::move(data), std::move(sources), options.state_reset);
}

}  // namespace seqto::internal

namespace seqto {

Model with_constant_inputs(Model model, const std::map<std::string, double>& values) {
  Graph& graph = model.graph;
  for (const auto& [name, value] : values) {
    const std::vector<ValueInfo> open = graph.free_inputs();
    const auto input = std::ranges::find(open, name, &ValueInfo::name);
    if (input == open.end()) {
      std::vector<std::string> names;
      for (const ValueInfo& v : open) names.push_back(v.name);
      throw Error(Code::kUsage, fmt::format("[prepare] the input {} found; one of the model's inputs {} expected", name,
                                            fmt::join(names, ", ")));
    }
    graph.initializers.push_back({name, internal::constant(*input, value, open)});
    std::erase_if(graph.inputs, [&](const ValueInfo& v) { return v.name == name; });
  }
  return model;
}

}  // namespace seqto
