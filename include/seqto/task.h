// Room: metrics. What a model is for: how its outputs are read, which loss a search goes by, what is reported.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/metrics.h"
#include "seqto/model.h"

namespace seqto {

// A row for each task; docs/reference/metrics.md has them as a table.
struct Task {
  std::string_view name;                   // "classify", "generate" ...
  std::string_view loss;                   // that a search goes by where no other was asked for
  std::vector<std::string_view> metrics;   // that are reported without being asked for
  bool embeds = false;                     // an answer is one vector, pooled and of length 1: Outputs::pooling
  std::string_view answers = "answers";    // what changes or does not: "pixels"
  std::string_view a_run = "on a prompt";  // what the time of a run is, beside that of a next token
  bool writes = false;                     // an answer foretells the next token: texts show what changes
};
std::span<const Task> tasks();
// Throws Error{kUsage} for an unknown name.
const Task& task_named(std::string_view name);
// Of a study: a row without a name where it has no task.
const Task& task_of_study(std::string_view name);

// How the answers of a model are read.
struct Reading {
  const Task* task = nullptr;        // a row of tasks()
  Pooling pooling = Pooling::kNone;  // of an embedding's positions
  std::string detector{};            // how a detector's outputs become boxes, as docs/reference/metrics.md has it
  std::shared_ptr<const RowMaker> maker{};  // where these are a list, as long as the picture has objects
  bool classes_second = false;              // of maps of classes: Outputs::classes_second
  std::string reason;                       // what it was found by; empty: asked for
  Outputs outputs() const;                  // without rows: answers are read into it so
  bool gives_classes() const { return !task->embeds && !classes_second; }  // of rows, which labels are held against
};

// What finding the task looks at, beside what was asked for.
struct FirstAnswer {
  const Outputs& outputs;       // of a sample, not pooled
  const Sample& sample;         // that sample; where it has marks in place of states, as many outputs are states
  std::filesystem::path model;  // its file, beside which exporters say what it is for; empty: not known
};
// By what was asked for, else by the model and its first answer. Outputs of the forms that detectors of common
// exporters have are boxes. A single value is a regression. A model of token ids
// embeds where it gives features, and generates where the scores of a position foretell the next token of the sample
// better than its own. Rows of class scores (gives_class_rows), and a single row, are a classifier's; several float
// outputs, maps and other sequences are raw.
Reading find_reading(const MetricOptions& asked, const Model& model, const FirstAnswer& first);

// The same, with what was found in place of what was not asked for.
MetricOptions read_with(const MetricOptions& asked, const Reading& reading);

// Whether the output of that name is what is remembered for the next run ("present.0.key"), which is no answer.
bool is_memory(std::string_view output);

// The task's metrics, but those that such a sample has no truth for, or so few of them do not bear.
std::vector<std::string> unasked_metrics(const Reading& reading, const Sample& sample, int64_t samples);

// Whether the last axis of the first output holds class scores where the output has several axes. It does where it
// comes from a Softmax or LogSoftmax over that axis. A model of token ids (integers) may end in a matrix product,
// behind it a bias, one factor or a cap. Features leave through a normalization, boxes through a Concat.
bool gives_class_rows(const Model& model);

// Whether the first output is a map, [1, classes, rows, columns], that comes from a Softmax or LogSoftmax over its
// second axis; it may be resized behind it.
bool gives_class_maps(const Model& model);

}  // namespace seqto
