// The tasks by name, and which of them a model's first answer speaks for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "data/datasets.h"
#include "data/state_mark.h"
#include "data/token_inputs.h"
#include "metrics/loss/output_values.h"
#include "metrics/loss/softmax.h"
#include "metrics/task/detections.h"
#include "metrics/task/error_rates.h"
#include "metrics/task/task_metric_kinds.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "seqto/error.h"
#include "seqto/task.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

const std::vector<Task>& rows() {
  static const std::vector<Task> kTasks{
      {.name = "classify", .loss = "kl"},
      {.name = "detect", .loss = "nmse", .metrics = {"map50_95", "map50"}},
      {.name = "embed", .loss = "cosine", .metrics = {"topk_overlap"}, .embeds = true},
      {.name = "generate", .loss = "kl", .metrics = {"perplexity"}, .writes = true},
      {.name = "transcribe", .loss = "kl", .a_run = "on a whole text"},
      {.name = "segment", .loss = "kl", .answers = "pixels"},
      {.name = "labels", .loss = "top1_disagreement", .answers = "labels"},
      {.name = "regress", .loss = "mse"},
      {.name = "raw", .loss = "nmse"},
  };
  return kTasks;
}

constexpr std::string_view kLabels = "labels", kSegment = "segment";

struct Found {
  std::string_view task;
  std::string reason;
};

bool reads_ids(const Model& model) { return internal::reads_ids(model.graph.free_inputs()); }

// Whether it reads a text: ids of tokens, [batch, tokens]. Categories beside the numbers of a table are no text, nor is
// a single number; what is remembered and masks are no table.
bool reads_text(const Model& model, const Sample& sample) {
  const std::vector<ValueInfo> inputs = model.graph.free_inputs();
  const auto is_table = [&](size_t i) {
    const ValueInfo& input = inputs[i];
    const bool is_state = i < sample.inputs.size() && internal::may_be_state_mark(sample.inputs[i]);
    return input.type == DataType::kFloat && input.shape && input.shape->size() == 2 && !is_state &&
           !internal::role_of(input.name) && input.name.find("mask") == input.name.npos;
  };
  bool ids = false, table = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (internal::role_of(inputs[i].name) == internal::TokenRole::kTokens) return true;
    ids |= internal::reads_ids(std::span(inputs).subspan(i, 1)) && (!inputs[i].shape || inputs[i].shape->size() == 2);
    table |= is_table(i);
  }
  return ids && !table;
}

std::string_view name_of(const Model& model, const Outputs& output) {
  return output.place < model.graph.outputs.size() ? std::string_view(model.graph.outputs[output.place].name) : "";
}

bool is_sequence(const Outputs& outputs) { return outputs.dims.size() == 3 && outputs.dims[0] == 1; }

bool is_map(const Outputs& outputs) {
  return outputs.dims.size() == 4 && outputs.dims[0] == 1 && std::ranges::count(outputs.dims, 1) == 1;
}

// Whether the classes of a map are its second axis: they are the last where a Softmax or the input says it.
bool has_classes_second(const Model& model, const Sample& sample) {
  if (gives_class_maps(model)) return true;
  if (gives_class_rows(model)) return false;
  const auto is_depth = [](int64_t size) { return size == 1 || size == 3; };
  if (sample.inputs.empty() || sample.inputs[0].dims().size() != 4) return true;
  const std::vector<int64_t>& input = sample.inputs[0].dims();
  return is_depth(input[1]) || !is_depth(input[3]);
}

// As asked for, but for what the outputs do not have: classes of one place where there is a map of them, or labels.
const Task& asked_task(const MetricOptions& asked, const Outputs& outputs) {
  const Task& task = task_named(asked.task);
  if (task.name != "classify") return task;
  return outputs.labels ? task_named(kLabels) : is_map(outputs) ? task_named(kSegment) : task;
}

size_t states_of(const Model& model, const Sample& sample) {
  const std::vector<ValueInfo> inputs = model.graph.free_inputs();
  size_t states = 0;
  for (size_t i = 0; i < std::min(inputs.size(), sample.inputs.size()); ++i)
    states += internal::may_be_state_mark(sample.inputs[i]) &&
              (inputs[i].type != DataType::kInt64 || (inputs[i].shape && !inputs[i].shape->empty()));
  return states;
}

size_t further_answers(const Model& model, const FirstAnswer& first) {
  const auto count = std::ranges::count_if(first.outputs.others,
                                           [&](const Outputs& other) { return !is_memory(name_of(model, other)); });
  return static_cast<size_t>(count) - std::min(static_cast<size_t>(count), states_of(model, first.sample));
}

// Whether each position's scores know the next token better than the one that is there, which a masked model does not.
bool foretells(const Outputs& outputs, std::span<const int64_t> tokens) {
  const auto row = outputs.row(0);
  if (!is_sequence(outputs) || tokens.size() < 2) return false;
  const auto width = static_cast<size_t>(outputs.dims.back());
  if (row.size() != width * tokens.size()) return false;
  if (std::ranges::any_of(tokens, [&](int64_t t) { return t < 0 || static_cast<size_t>(t) >= width; })) return false;
  double next = 0, same = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::vector<double> shares = softmax(row.subspan(i * width, width));
    next += std::log(shares[static_cast<size_t>(tokens[i + 1])] + 1e-30);
    same += std::log(shares[static_cast<size_t>(tokens[i])] + 1e-30);
  }
  return next > same;
}

// As BERT's pooler does: scores that a Tanh caps are scaled behind it.
bool ends_in_tanh(const Model& model) {
  const Node* node = internal::GraphView(model).edges.producer(model.graph.outputs[0].name);
  return node && internal::is_tanh(*node);
}

// Of classes that do not exclude each other, of which softmax knows nothing.
bool ends_in_sigmoid(const Model& model) {
  const Node* node = internal::GraphView(model).edges.producer(model.graph.outputs[0].name);
  return node && internal::is_sigmoid(*node);
}

// Whether the one long axis of the first output is one of positions, as of samples of sound: it is as long as an axis
// of the input, or what a convolution runs along.
bool runs_along_positions(const Model& model, const Outputs& outputs) {
  const ValueInfo& output = model.graph.outputs[0];
  const auto is_long = std::ranges::find_if(outputs.dims, [](int64_t d) { return d > 1; });
  const auto axis = static_cast<size_t>(is_long - outputs.dims.begin());
  if (axis == outputs.dims.size()) return false;
  if (output.shape && output.shape->size() == outputs.dims.size() && axis > 0)
    if (const std::string& name = (*output.shape)[axis].parameter; !name.empty())
      for (const ValueInfo& input : model.graph.free_inputs())
        if (input.shape && std::ranges::count(*input.shape, name, &Dimension::parameter) > 0) return true;
  const internal::GraphView view(model);
  const Node* node = view.edges.producer(output.name);
  while (node && (internal::has(*node, internal::kClips | internal::kShifts) || internal::is_tanh(*node)))
    node = view.edges.producer(node->inputs[0]);
  return axis >= 2 && node && internal::has(*node, internal::kConv);
}

// What reads the scores of each frame as text.
bool asks_for_text(const MetricOptions& asked) { return std::ranges::any_of(asked.metrics, internal::reads_texts); }

// No object where there is none.
nlohmann::json config_beside(const fs::path& model, const char* name) {
  const fs::path file = model.empty() ? model : internal::file_beside(model, name);
  return file.empty() ? nlohmann::json() : internal::parse_json_if_any(read_file(file));
}

// What it says there, of several words the first; empty: nothing.
std::string noted_word(const nlohmann::json& config, std::string_view key) {
  if (!config.is_object() || !config.contains(key)) return {};
  const auto& value = config[key].is_array() && !config[key].empty() ? config[key].front() : config[key];
  return value.is_string() ? value.get<std::string>() : std::string();
}

// An embedding made of a language model keeps its config.json, and gives features.
bool may_be_scores_of_tokens(const Model& model, const FirstAnswer& first) {
  const auto known = [&](int64_t token) { return token < first.outputs.dims.back(); };
  return (gives_class_rows(model) || name_of(model, first.outputs) == "logits") &&
         std::ranges::all_of(first.sample.tokens, known);
}

// What a config.json of transformers says.
std::optional<Found> noted_task(const Model& model, const FirstAnswer& first, bool ids) {
  struct Row {
    std::string_view key, ending, task;
  };
  constexpr Row kRows[] = {{"problem_type", "multi_label_classification", "raw"},
                           {"problem_type", "regression", "regress"},
                           {"architectures", "ForCTC", "transcribe"},
                           {"architectures", "ForCausalLM", "generate"},
                           {"architectures", "LMHeadModel", "generate"}};
  const auto fits = [&](std::string_view task) {
    if (task == "transcribe") return internal::are_frames(first.outputs.dims) && !ids;
    return task != "generate" || (is_sequence(first.outputs) && ids && may_be_scores_of_tokens(model, first));
  };
  const auto config = config_beside(first.model, "config.json");
  for (const auto& [key, ending, task] : kRows) {
    const std::string word = noted_word(config, key);
    if (word.ends_with(ending) && fits(task)) return Found{task, fmt::format("config.json says {}", word)};
  }
  return {};
}

// Vectors that are made of the first output's, as BERT's pooler and Sentence Transformers do.
bool are_pooled(const std::vector<Outputs>& others) {
  return std::ranges::all_of(others, [](const Outputs& other) { return other.dims.size() == 2; });
}

// As CLIP, Sentence Transformers and models of faces call it.
bool names_embedding(const Model& model, const Outputs& output) {
  const std::string_view name = name_of(model, output);
  return name.ends_with("_embeds") || name.ends_with("_embedding") || name == "embedding" || name == "embeddings";
}

// Such a one, and beside it at most features of tokens and what is remembered: anything else is a second answer.
bool is_embedding(const Model& model, const FirstAnswer& first) {
  const Outputs& outputs = first.outputs;
  const auto answers = std::ranges::count_if(outputs.others, [&](const Outputs& other) {
    return names_embedding(model, other) || !(is_sequence(other) || is_memory(name_of(model, other)));
  });
  return (outputs.dims.size() == 2 || is_sequence(outputs)) && names_embedding(model, outputs) &&
         static_cast<size_t>(answers) <= states_of(model, first.sample);
}

// Whether the sample's target is what the output should be. Shares of classes, as one-hot rows, are no such numbers.
bool is_target_of(const Outputs& outputs, std::span<const float> target) {
  const auto width = static_cast<size_t>(std::max<int64_t>(1, outputs.classes()));
  if (std::ssize(target) != outputs.columns) return false;
  for (std::span<const float> left = target; !left.empty();)
    if (!are_shares(take_scores(left, width))) return true;
  return false;
}

Found found_by(const MetricOptions& asked, const Model& model, const FirstAnswer& first) {
  const Outputs& outputs = first.outputs;
  if (asks_for_text(asked) && internal::are_frames(outputs.dims) && !reads_ids(model))
    return {"transcribe", "an error rate of words in the scores of each frame"};
  if (outputs.maker) return {"detect", "lists of boxes with scores"};
  if (outputs.labels) return {kLabels, "the model's outputs are whole numbers"};
  const bool ids = reads_ids(model), text = reads_text(model, first.sample);
  const bool rows = outputs.classes() < outputs.columns;
  if (text && is_sequence(outputs) && !outputs.others.empty() && are_pooled(outputs.others) && !gives_class_rows(model))
    return {"embed", "features for each token, and what is pooled of them"};
  if (is_embedding(model, first)) return {"embed", "an output that is called an embedding"};
  if (further_answers(model, first) > 0) return {"raw", "the model has several float outputs"};
  if (auto noted = noted_task(model, first, ids)) return *noted;
  if (gives_class_maps(model) || (gives_class_rows(model) && is_map(outputs)))
    return {kSegment, "scores of classes for each pixel"};
  if (outputs.columns == 1) return {"regress", "the model's first output is a single value"};
  // Whole numbers are labels, and targets of who asks for them.
  if (first.sample.label < 0 && is_target_of(outputs, first.sample.target))
    return {"regress", "targets are given for the samples"};
  const bool of_labels = first.sample.label < 0 && ends_in_sigmoid(model);
  const Found by_label{"raw", "each value leaves a Sigmoid, as of labels that do not exclude each other"};
  if (of_labels && gives_class_rows(model)) return by_label;
  if (gives_class_rows(model) && !(ids && ends_in_tanh(model)))
    return foretells(outputs, first.sample.tokens)
               ? Found{"generate", "scores of the next token for each position"}
               : Found{"classify", rows ? "scores of classes for each position" : "one set of class scores"};
  // [1, 1, samples] is a sound that is made of them.
  if (text && is_sequence(outputs) && outputs.dims[1] == 1 && first.sample.tokens.size() != 1)
    return {"raw", "one row of values for many tokens"};
  if (text && is_sequence(outputs)) return {"embed", "features for each token"};
  if (text && outputs.dims.size() == 2) return {"embed", "one vector of features for a text"};
  const bool of_many_shapes = outputs.dims.empty();
  if (rows || of_many_shapes || runs_along_positions(model, outputs))
    return {"raw", "the model's output is a map or a sequence, not one set of classes"};
  if (ends_in_tanh(model)) return {"raw", "the model's output is values within a Tanh"};
  return of_labels ? by_label : Found{"classify", "one set of class scores"};
}

// As Sentence Transformers notes it.
std::optional<Pooling> noted_pooling(const fs::path& model) {
  const auto config = config_beside(model, "1_Pooling/config.json");
  const std::map<std::string, Pooling> keys{{"pooling_mode_cls_token", Pooling::kFirst},
                                            {"pooling_mode_mean_tokens", Pooling::kMean},
                                            {"pooling_mode_lasttoken", Pooling::kLast}};
  for (const auto& [key, pooling] : keys)
    if (config.is_object() && config.contains(key) && config[key] == true) return pooling;
  return {};
}

Pooling pooling_of(const MetricOptions& asked, const FirstAnswer& first) {
  const bool whole = !is_sequence(first.outputs);
  if (asked.pooling.empty()) return whole ? Pooling::kWhole : noted_pooling(first.model).value_or(Pooling::kMean);
  const Pooling pooling = parse_pooling(asked.pooling);
  if (whole && pooling != Pooling::kWhole)
    throw Error(Code::kInvalidInput,
                fmt::format("[task] --pooling {} and a first output of {} axes found; features of positions, [1, "
                            "positions, features], expected; leave --pooling out",
                            asked.pooling, first.outputs.dims.size()));
  return pooling;
}

// The description that a metric of boxes was given; empty: none.
std::string given_detector(const MetricOptions& asked) {
  for (const std::string& metric : asked.metrics) {
    const size_t is = metric.find('=');
    if (is != metric.npos && internal::is_average_precision(metric.substr(0, is)))
      return read_file(metric.substr(is + 1));
  }
  return {};
}

// Nobody knows what the numbers of an output of classes mean.
bool has_own_classes(const std::string& detector) {
  return std::ranges::any_of(internal::parse_decoder(detector, "the outputs").heads,
                             [](const internal::DetectionHead& head) { return !head.classes.empty(); });
}

}  // namespace

std::span<const Task> tasks() { return rows(); }

bool is_memory(std::string_view output) { return internal::gives_memory(output); }

const Task& task_of_study(std::string_view name) {
  static const Task kNone;
  const auto row = std::ranges::find(rows(), name, &Task::name);
  return row == rows().end() ? kNone : *row;
}

const Task& task_named(std::string_view name) {
  if (const Task& task = task_of_study(name); !task.name.empty()) return task;
  std::vector<std::string> names;
  for (const Task& task : rows()) names.emplace_back(task.name);
  throw Error(Code::kUsage, fmt::format("[task] --task {} found; one of {} expected{}", name, fmt::join(names, ", "),
                                        did_you_mean(std::string(name), names)));
}

Reading find_reading(const MetricOptions& asked, const Model& model, const FirstAnswer& first) {
  Reading reading;
  std::string detector;
  if (!first.outputs.maker && (asked.task.empty() || asked.task == "detect"))
    detector = internal::find_decoder(model, first.outputs, first.sample,
                                      noted_word(config_beside(first.model, "config.json"), "architectures"));
  if (asked.task.empty()) {
    auto [task, reason] =
        detector.empty() ? found_by(asked, model, first) : Found{"detect", "outputs of the form of boxes with scores"};
    reading = {.task = &task_named(task), .reason = std::move(reason)};
  } else {
    reading.task = &asked_task(asked, first.outputs);
  }
  reading.classes_second = reading.task->name == kSegment && has_classes_second(model, first.sample);
  reading.detector = std::move(detector);
  std::vector<std::string> outputs;
  for (const ValueInfo& output : model.graph.outputs) outputs.push_back(output.name);
  reading.maker = internal::make_box_rows(reading.detector.empty() ? given_detector(asked) : reading.detector,
                                          internal::answer_names(std::move(outputs)));
  if (reading.task->embeds) reading.pooling = pooling_of(asked, first);
  else if (!asked.pooling.empty())
    throw Error(Code::kUsage, fmt::format("[task] --pooling {} and the task {} found; --task embed expected beside it",
                                          asked.pooling, reading.task->name));
  return reading;
}

Outputs Reading::outputs() const { return {.pooling = pooling, .maker = maker, .classes_second = classes_second}; }

MetricOptions read_with(const MetricOptions& asked, const Reading& reading) {
  MetricOptions metrics = asked;
  if (reading.task->embeds) metrics.pooling = to_string(reading.pooling);
  metrics.detector = reading.detector;
  return metrics;
}

std::vector<std::string> unasked_metrics(const Reading& reading, const Sample& sample, int64_t samples) {
  constexpr int64_t kFewest = 3;  // to be near to one of
  std::vector<std::string> names;
  for (const std::string_view name : reading.task->metrics)
    if (reading.task->embeds ? samples >= kFewest
        : reading.task->name == "detect"
            ? sample.boxes && !reading.detector.empty() && !has_own_classes(reading.detector)
            : sample.tokens.size() > 1)
      names.emplace_back(name);
  return names;
}

}  // namespace seqto
