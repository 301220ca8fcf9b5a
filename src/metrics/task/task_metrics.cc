// Truths, answers, and the metrics by name.
#include "seqto/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/hash.h"
#include "base/json.h"
#include "base/names.h"
#include "metrics/loss/output_values.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using internal::MetricKind;

MetricKind average_precision(const char* name) {
  return {.takes_file = true,
          .higher_is_better = true,
          .of_objects = true,
          .make = [name](const std::string& file, const MetricOptions& options) {
            return internal::make_average_precision(name, file, options.detector);
          }};
}

MetricKind error_rate(const char* name) {
  return {
      .needs_file = true, .takes_file = true, .of_texts = true, .make = [name](const std::string& file, const auto&) {
        return internal::make_error_rate(name, file);
      }};
}

const std::map<std::string, MetricKind>& kinds() {
  static const std::map<std::string, MetricKind> kKinds{
      {"accuracy",
       {.higher_is_better = true, .make = [](const auto&, const auto&) { return internal::make_accuracy(); }}},
      {"mae", {.make = [](const auto&, const auto&) { return internal::make_mae(); }}},
      {"rmse", {.make = [](const auto&, const auto&) { return internal::make_rmse(); }}},
      {"map50", average_precision("map50")},
      {"map50_95", average_precision("map50_95")},
      {"keypoint_map50", average_precision("keypoint_map50")},
      {"keypoint_map50_95", average_precision("keypoint_map50_95")},
      {"mask_map50", average_precision("mask_map50")},
      {"mask_map50_95", average_precision("mask_map50_95")},
      {"nme",
       {.takes_file = true, .make = [](const std::string& file, const auto&) { return internal::make_nme(file); }}},
      {"perplexity", {.make = [](const auto&, const auto&) { return internal::make_perplexity(); }}},
      {"wer", error_rate("wer")},
      {"cer", error_rate("cer")},
      {"topk_overlap",
       {.higher_is_better = true,
        .make =
            [](const auto&, const MetricOptions& options) {
              return internal::make_topk_overlap(options.pooling.empty() ? Pooling::kNone
                                                                         : parse_pooling(options.pooling));
            }}},
  };
  return kKinds;
}

struct Asked {
  std::string name, file;
};

Asked parse(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::shared_ptr<const Metric> make_metric(const std::string& text, const MetricOptions& options) {
  const auto [name, file] = parse(text);
  const auto fail = [&](const std::string& expected) {
    throw Error(Code::kUsage, fmt::format("[metric] --metric {} found; {}", text, expected));
  };
  const MetricKind* kind = internal::metric_kind(name);
  if (!kind) {
    const std::vector<std::string> names = task_metric_names();
    fail(
        fmt::format("one of {} expected; top1, top5 and f1 need no asking where there are labels, and "
                    "--metric-command takes one of your own{}",
                    fmt::join(names, ", "), did_you_mean(name, names)));
  }
  if (kind->needs_file && file.empty())
    fail(fmt::format("{}=FILE expected, which says how the outputs are read (docs/reference/metrics.md)", name));
  if (!kind->takes_file && text.find('=') != std::string::npos) fail(fmt::format("{} alone expected", name));
  return kind->make(file, options);
}

// NAME:max:COMMAND
std::shared_ptr<const Metric> make_command(const std::string& text, const MetricOptions& options) {
  const size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  const std::string name = text.substr(0, first);
  const std::string better = second == std::string::npos ? "" : text.substr(first + 1, second - first - 1);
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
  const bool good = (better == "max" || better == "min") && second + 1 < text.size() && !name.empty() &&
                    std::ranges::all_of(name, is_word);
  if (!good)
    throw Error(Code::kUsage, fmt::format("[metric] --metric-command {} found; NAME:max:COMMAND expected, or "
                                          "NAME:min:COMMAND where less is better",
                                          text));
  return internal::make_command_metric(name, better == "max", text.substr(second + 1), options.timeout_seconds,
                                       options.command_resamples);
}

void require_free(const std::string& name) {
  if (name.empty() || std::ranges::count(internal::kLabelMetrics, name) > 0 || kinds().contains(name) ||
      is_loss(name) || is_cost(name))
    throw Error(Code::kUsage,
                fmt::format("[metric] a metric of your own by the name '{}' found; a name that no figure of seqto has "
                            "expected",
                            name));
}

}  // namespace

const MetricKind* internal::metric_kind(const std::string& name) {
  const auto found = kinds().find(name);
  return found == kinds().end() ? nullptr : &found->second;
}

bool internal::reads_texts(const std::string& asked) {
  const MetricKind* kind = metric_kind(parse(asked).name);
  return kind && kind->of_texts;
}

bool internal::is_average_precision(const std::string& metric) {
  const MetricKind* kind = metric_kind(metric);
  return kind && kind->of_objects;
}

Truth truth_of(const Sample& sample) {
  return {sample.label,      sample.target, sample.boxes,
          sample.transcript, sample.tokens, {sample.source, sample.position}};
}

void Answers::append(std::span<const Tensor> tensors, std::span<const char> counted) {
  outputs.resize(tensors.size());
  dims.resize(tensors.size());
  const bool whole = std::ranges::all_of(tensors, internal::is_integer, &Tensor::type);
  const auto floats = std::ranges::find_if(tensors, &Tensor::is_float);
  first = floats == tensors.end() ? 0 : static_cast<size_t>(floats - tensors.begin());
  for (size_t o = 0; o < tensors.size(); ++o) {
    const Tensor& tensor = tensors[o];
    if (tensor.type() == DataType::kString || tensor.type() == DataType::kUndefined)
      throw Error(Code::kInvalidInput, fmt::format("[metric] output '{}' is no tensor of numbers; one was expected; "
                                                   "leave that output out of the model",
                                                   names.at(o)));
    const bool same = outputs[o].rows == 0 || (outputs[o].ends.empty() && dims[o] == tensor.dims());
    dims[o] = tensor.dims();
    if (same || tensor.dims().size() >= 3) internal::append_values(outputs[o], tensor, counted);
    else internal::append_list(outputs[o], tensor);
    // As top1 reads it; several whole numbers are scores of a model whose outputs are quantized.
    outputs[o].labels = whole && outputs[o].columns == 1;
  }
}

void Answers::require_one_length(const std::string& asked_by) const {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!outputs[o].ends.empty())
      throw Error(Code::kInvalidInput,
                  fmt::format("{} output '{}' is of several lengths; one for all samples was expected; give samples of "
                              "one length",
                              asked_by, names.at(o)));
}

std::vector<int64_t> Answers::array_shape(size_t output, const std::string& asked_by) const {
  require_one_length(asked_by);
  std::vector<int64_t> shape = dims[output];
  if (!shape.empty() && shape[0] == 1) shape[0] = rows();
  else shape.insert(shape.begin(), rows());
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  const auto there = std::ssize(outputs[output].values);
  if (there != count)
    throw Error(Code::kInvalidInput,
                fmt::format("{} output '{}' has {} of {} values, those of positions that the mask counts; all were "
                            "expected; give samples of one length without padding",
                            asked_by, names.at(output), there, count));
  return shape;
}

std::vector<std::string> task_metric_names() {
  std::vector<std::string> names;
  for (const auto& [known, _] : kinds()) names.push_back(known);
  return names;
}

Metrics make_metrics(const MetricOptions& options, const Metrics& own) {
  Metrics metrics;
  const auto add = [&](std::shared_ptr<const Metric> metric) {
    for (const auto& known : metrics)
      if (known->name() == metric->name())
        throw Error(Code::kUsage, fmt::format("[metric] {} found twice; each name once expected", metric->name()));
    metrics.push_back(std::move(metric));
  };
  for (const std::string& text : options.metrics) add(make_metric(text, options));
  const auto add_users = [&](std::shared_ptr<const Metric> metric) {
    require_free(metric->name());
    add(std::move(metric));
  };
  for (const std::string& text : options.commands) add_users(make_command(text, options));
  std::ranges::for_each(own, add_users);
  return metrics;
}

std::string metric_options_to_json(const MetricOptions& options) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& text : options.metrics) {
    const auto [name, file] = parse(text);
    nlohmann::ordered_json metric{{"name", name}};
    if (!file.empty()) metric["sha256"] = sha256_file(file);
    json.push_back(metric);
  }
  for (const std::string& text : options.commands) {
    json.push_back({{"command", text}});
    if (options.command_resamples > 0) json.back()["resamples"] = options.command_resamples;
  }
  return json.dump();
}

}  // namespace seqto
