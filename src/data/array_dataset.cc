// Arrays of an .npz or .npy as a data set: the first axis counts the samples, which are views into the arrays.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/files.h"
#include "base/hash.h"
#include "data/arrays.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/labels.h"
#include "data/select.h"
#include "data/shapes.h"
#include "data/token_inputs.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// One model input: all its samples, and the dims of one as the model takes it.
struct Column {
  std::shared_ptr<const Tensor> array;
  std::vector<int64_t> dims;
  size_t stride_bytes = 0;  // 0: the same for every sample

  Tensor row(int64_t index) const {
    const size_t bytes = stride_bytes > 0 ? stride_bytes : array->bytes().size();
    return {array->type(), dims, array, array->bytes().subspan(stride_bytes * index, bytes)};
  }
};

// Samples used, in their order, with their labels.
struct Rows {
  std::vector<int64_t> index, label;
};

SampleKind kind_of(int64_t label) { return {label < 0 ? "" : std::to_string(label)}; }

class ArrayDataset : public Dataset {
 public:
  ArrayDataset(std::filesystem::path path, std::vector<Column> columns, Rows rows, bool has_labels)
      : path_(std::move(path)), columns_(std::move(columns)), rows_(std::move(rows)), has_labels_(has_labels) {}

  int64_t size() const override { return static_cast<int64_t>(rows_.index.size()); }
  bool has_labels() const override { return has_labels_; }
  SampleKind kind(int64_t index) const override { return kind_of(rows_.label[index]); }

  Sample read(int64_t index) const override {
    Sample sample{
        .label = rows_.label[index], .name = std::to_string(rows_.index[index]), .position = rows_.index[index]};
    for (const Column& column : columns_) sample.inputs.push_back(column.row(rows_.index[index]));
    return sample;
  }

  int64_t row(int64_t index) const override { return rows_.index[static_cast<size_t>(index)]; }

  std::string fingerprint() const override {
    std::string text = "arrays " + sha256_file(path_) + "\n";
    for (size_t i = 0; i < rows_.index.size(); ++i) text += fmt::format("{}\t{}\n", rows_.index[i], rows_.label[i]);
    return sha256_hex(text);
  }

 private:
  std::filesystem::path path_;
  std::vector<Column> columns_;
  Rows rows_;
  bool has_labels_;
};

[[noreturn]] void fail(const ArrayFile& file, const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput, fmt::format("[data] {}: {}; {}", file.file(), found, expected));
}

// The array for the only input of a model.
std::string only_array(const ArrayFile& file, const std::string& input) {
  std::vector<std::string> others = file.names();
  std::erase(others, "y");
  if (input != "y" && file.has(input)) return input;
  if (file.has("x")) return "x";
  if (others.size() == 1) return others[0];
  if (others.empty() && file.has(input)) return input;
  fail(file, fmt::format("the arrays {} found", fmt::join(file.names(), ", ")),
       fmt::format("an array x or {} expected; rename one of them", input));
}

// Whether the input holds the same beside each row of the array input_ids.
bool follows_tokens(const ArrayFile& file, const ValueInfo& input) {
  const auto role = role_of(input.name);
  return role && role != TokenRole::kTokens && suits(input, *role) && file.has("input_ids");
}

std::vector<std::string> arrays_of_inputs(const ArrayFile& file, std::span<const ValueInfo> inputs) {
  if (inputs.size() == 1) return {only_array(file, inputs[0].name)};
  std::vector<std::string> names, missing;
  std::string numbers;
  for (const ValueInfo& input : inputs) {
    names.push_back(input.name);
    if (file.has(input.name) || follows_tokens(file, input)) continue;
    missing.push_back(input.name);
    if (input.shape && input.shape->empty()) numbers += "; or give " + number_flag(input);
  }
  if (missing.empty()) return names;
  const std::string found =
      file.has("") ? "one unnamed array" : fmt::format("the arrays {}", fmt::join(file.names(), ", "));
  fail(file, fmt::format("{} found, {} missing", found, fmt::join(missing, ", ")),
       fmt::format("the model has {} inputs, an array for each expected: {}; save them with numpy.savez{}",
                   inputs.size(), fmt::join(names, ", "), numbers));
}

Column make_column(const ArrayFile& file, const std::string& name, const ValueInfo& input) {
  const std::string where = fmt::format("{}, {}", file.file(), name.empty() ? "its array" : name);
  Column column{std::make_shared<const Tensor>(convert(file.load(name), input.type, where)), {}};
  const std::vector<int64_t>& dims = column.array->dims();
  if (dims.empty()) {
    // One number for a scalar input, the same in every sample: a sampling rate.
    if (!input.shape || input.shape->empty()) return column;
    fail(file, fmt::format("a single number found as {}", name),
         "an array whose first axis counts the samples expected");
  }
  const std::span<const int64_t> sample = std::span(dims).subspan(1);
  const auto matched = match_shape(sample, input);
  if (!matched) {
    check_batch(sample, input);
    throw Error(
        Code::kInvalidInput,
        fmt::format(
            "[data] {}: shape {} found, so samples of {}; the model input '{}' {} expected; the first axis counts "
            "the samples, the others are the model's",
            where, shape_text(dims), shape_text(sample), input.name, shape_text(input)));
  }
  column.dims = *matched;
  if (dims[0] > 0) column.stride_bytes = column.array->bytes().size() / static_cast<size_t>(dims[0]);
  return column;
}

// position_ids of each row by its mask, which may hide what fills it up in front.
Column positions_beside(const Column& tokens, const Column& mask, const ValueInfo& input, int64_t count) {
  const int64_t length = tokens.row(0).element_count();
  std::vector<int64_t> values;
  for (int64_t row = 0; row < count; ++row) {
    std::vector<char> counted = counted_by(mask.row(row));
    counted.resize(static_cast<size_t>(mask.dims[1]));  // of floats that are all 0
    const std::vector<int64_t> positions = positions_of(counted, length);
    values.insert(values.end(), positions.begin(), positions.end());
  }
  auto all =
      std::make_shared<const Tensor>(convert(int64_tensor({count, length}, std::move(values)), input.type, input.name));
  const size_t stride = all->bytes().size() / static_cast<size_t>(count);
  std::vector<int64_t> dims{length};
  if (input.shape->size() > 1) dims.insert(dims.begin(), 1);
  return {.array = all, .dims = dims, .stride_bytes = stride};
}

// Whether it hides tokens of the row, and of what came before.
bool is_mask(const Column& mask, const Column& tokens) {
  return std::ssize(counted_by(mask.row(0))) >= tokens.row(0).element_count();
}

// What follows the tokens of any row of input_ids, `before` of which came before it.
Column column_beside(const Column& tokens, const ValueInfo& input, int64_t before) {
  const std::vector<int64_t> row(static_cast<size_t>(tokens.row(0).element_count()));
  auto beside = std::make_shared<const Tensor>(token_input(input, *role_of(input.name), row, before));
  return {.array = beside, .dims = beside->dims()};
}

// How many tokens the arrays of a past remember; inputs without an array have no column yet.
int64_t tokens_before(std::span<const Column> columns, std::span<const ValueInfo> inputs) {
  for (size_t i = 0; i < columns.size(); ++i)
    if (const auto past = columns[i].array ? remembered(inputs[i], columns[i].dims) : std::nullopt) return *past;
  return 0;
}

// The number of samples, which all arrays share; inputs without an array have no column yet.
int64_t count_samples(const ArrayFile& file, std::span<const Column> columns, std::span<const std::string> names) {
  int64_t count = -1;
  std::string first;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!file.has(names[i])) continue;
    const auto& dims = columns[i].array->dims();
    if (dims.empty()) continue;
    if (count >= 0 && dims[0] != count) {
      fail(file, fmt::format("{} samples in {} and {} in {} found", count, first, dims[0], names[i]),
           "the same number in every array expected");
    }
    count = dims[0], first = names[i];
  }
  if (count < 1) fail(file, "no samples found", "an array whose first axis counts the samples expected");
  return count;
}

// Labels from an array: a whole number for each sample. Other arrays y (boxes, one-hot rows, targets of a regression)
// are no labels.
std::vector<int64_t> array_labels(const ArrayFile& file, int64_t count) {
  const Tensor array = file.load("y");
  if (array.dims().empty() || array.dims()[0] != count) {
    fail(file, fmt::format("{} samples and labels y of shape {} found", count, shape_text(array.dims())),
         "a label for each sample expected");
  }
  if (array.element_count() != count) return {};
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const double value = element(array, i);
    if (value != std::floor(value) || std::abs(value) > 1e15) return {};
    labels.push_back(static_cast<int64_t>(value));
  }
  return labels;
}

// The rows of the CSV, whose column file holds the index of the sample.
Rows csv_rows(const std::filesystem::path& path, int64_t count) {
  Rows rows;
  for (const LabelRow& row : read_labels(path)) {
    int64_t index = -1;
    const char* end = row.file.data() + row.file.size();
    const auto [stop, error] = std::from_chars(row.file.data(), end, index);
    if (error != std::errc() || stop != end || index < 0 || index >= count) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}, line {}: the file \"{}\" found; with arrays the index of a "
                              "sample expected, 0 to {}; correct the line",
                              path.string(), row.line, row.file, count - 1));
    }
    rows.index.push_back(index);
    rows.label.push_back(row.label);
  }
  return rows;
}

}  // namespace

std::unique_ptr<Dataset> open_arrays(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options) {
  if (!options.preprocess.empty() && options.preprocess != "none") {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: preprocessing \"{}\" asked for; arrays are given to the model as "
                            "they are; leave it out, or give a folder of images",
                            path.string(), options.preprocess));
  }
  const ArrayFile file(path);
  const std::vector<std::string> names = arrays_of_inputs(file, inputs);
  std::vector<Column> columns(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (file.has(names[i])) columns[i] = make_column(file, names[i], inputs[i]);
  const int64_t count = count_samples(file, columns, names);
  const auto tokens = std::ranges::find(names, "input_ids") - names.begin();
  const int64_t before = tokens_before(columns, inputs);
  const auto mask = std::ranges::find(names, "attention_mask") - names.begin();
  const bool has_mask = mask < std::ssize(names) && file.has("attention_mask");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (file.has(names[i])) continue;
    const Column& ids = columns[static_cast<size_t>(tokens)];
    columns[i] = has_mask && names[i] == "position_ids" && is_mask(columns[static_cast<size_t>(mask)], ids)
                     ? positions_beside(ids, columns[static_cast<size_t>(mask)], inputs[i], count)
                     : column_beside(ids, inputs[i], before);
  }

  Rows all;
  bool has_labels = true;
  if (is_label_table(options.labels)) {
    all = csv_rows(options.labels, count);
  } else {
    const bool has_y = file.has("y") && std::find(names.begin(), names.end(), "y") == names.end();
    if (has_y) all.label = array_labels(file, count);
    has_labels = !all.label.empty();
    all.label.resize(count, -1);
    for (int64_t i = 0; i < count; ++i) all.index.push_back(i);
  }
  Rows rows;
  for (const int64_t i : select(static_cast<int64_t>(all.index.size()), options,
                                [&all](int64_t row) { return kind_of(all.label[row]); })) {
    rows.index.push_back(all.index[i]);
    rows.label.push_back(all.label[i]);
  }
  return std::make_unique<ArrayDataset>(path, std::move(columns), std::move(rows), has_labels);
}

}  // namespace seqto::internal
