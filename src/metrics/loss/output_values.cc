#include "metrics/loss/output_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "metrics/loss/pooling.h"
#include "seqto/error.h"
#include "seqto/task.h"

namespace seqto::internal {
namespace {

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

// Those of the sample's positions, [1, positions, ...], that are counted.
std::vector<float> counted_values(std::span<const float> values, std::span<const char> counted) {
  const size_t width = values.size() / counted.size();
  std::vector<float> kept;
  for (size_t i = 0; i < counted.size(); ++i)
    if (counted[i]) kept.insert(kept.end(), values.begin() + i * width, values.begin() + (i + 1) * width);
  return kept;
}

std::vector<float> values_of(const Tensor& tensor) {
  if (tensor.type() == DataType::kFloat) return {tensor.values<float>().begin(), tensor.values<float>().end()};
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(element(tensor, static_cast<int64_t>(i)));
  return values;
}

// A number for each position, [1, positions], of which a sample may have more than another.
bool are_positions(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return a.size() == 2 && b.size() == 2 && a[0] == 1 && b[0] == 1;
}

// [places, classes] as [1, places, classes].
std::vector<int64_t> as_list(std::vector<int64_t> dims) {
  if (dims.size() == 2) dims.insert(dims.begin(), 1);
  return dims;
}

// The dims of rows where one of `dims` joins those before. Lengths of sequences and lists may differ, the classes of a
// place may not: what a sample has is one row then, of any length, and there are no dims.
std::vector<int64_t> joined_dims(const Outputs& before, const std::vector<int64_t>& dims, int64_t values) {
  const bool even = before.ends.empty() && values == before.columns;
  if (before.rows == 0 || even || are_positions(dims, before.dims)) return dims;
  const std::vector<int64_t> known = as_list(before.dims), list = as_list(dims);
  return list.size() >= 3 && list.size() == known.size() && list.back() == known.back() ? list : std::vector<int64_t>();
}

}  // namespace

bool is_integer(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kInt16 || type == DataType::kInt8 ||
         type == DataType::kUint64 || type == DataType::kUint32 || type == DataType::kUint16 ||
         type == DataType::kUint8 || type == DataType::kBool;
}

bool hides_positions(const Tensor& tensor, std::span<const char> counted) {
  const std::vector<int64_t>& dims = tensor.dims();
  return !counted.empty() && dims.size() >= 3 && dims[0] == 1 && dims[1] == std::ssize(counted);
}

void append_list(Outputs& outputs, const Tensor& tensor) {
  outputs.dims = tensor.dims();
  outputs.append_of_any_length(values_of(tensor));
}

void append_values(Outputs& outputs, const Tensor& tensor, std::span<const char> counted) {
  const std::vector<int64_t>& dims = tensor.dims();
  const bool some = hides_positions(tensor, counted);
  outputs.dims = joined_dims(outputs, dims, tensor.element_count());
  if (some && !outputs.dims.empty()) outputs.dims[1] = std::ranges::count_if(counted, [](char c) { return c != 0; });
  if (tensor.type() == DataType::kFloat && !some) outputs.append_of_any_length(tensor.values<float>());
  else if (tensor.type() == DataType::kFloat)
    outputs.append_of_any_length(counted_values(tensor.values<float>(), counted));
  else if (some) outputs.append_of_any_length(counted_values(values_of(tensor), counted));
  else outputs.append_of_any_length(values_of(tensor));
}

namespace {

// [1, classes, rows, columns] with its classes last.
std::vector<float> classes_last(std::span<const float> values, size_t classes) {
  const size_t pixels = values.size() / std::max<size_t>(1, classes);
  std::vector<float> moved(values.size());
  for (size_t c = 0; c < classes; ++c)
    for (size_t pixel = 0; pixel < pixels; ++pixel) moved[pixel * classes + c] = values[c * pixels + pixel];
  return moved;
}

// A row of class scores for each pixel.
void append_map(Outputs& outputs, const Tensor& tensor) {
  const std::vector<int64_t>& dims = tensor.dims();
  if (dims.size() != 4 || dims[0] != 1)
    throw Error(Code::kInvalidInput,
                fmt::format("[task] --task segment and a first output of {} axes found; scores of classes for each "
                            "pixel, [1, classes, rows, columns], expected; leave --task out",
                            dims.size()));
  outputs.dims = {1, dims[2], dims[3], dims[1]};
  outputs.append(classes_last(values_of(tensor), static_cast<size_t>(dims[1])));
}

void append_embedding(Outputs& outputs, const Tensor& tensor, std::span<const char> counted) {
  Outputs read;
  append_values(read, tensor, counted);
  const auto features = static_cast<size_t>(read.dims.empty() ? 0 : read.dims.back());
  const std::vector<float> vector = pooled(read.values, features, outputs.pooling);
  outputs.dims = {1, static_cast<int64_t>(vector.size())};
  outputs.append(vector);
}

}  // namespace

void append_outputs(Outputs& outputs, std::span<const Tensor> tensors, const char* asked_by,
                    std::span<const char> counted) {
  const bool fresh = outputs.rows == 0;
  if (fresh)  // labels count where there is nothing that they were made of
    outputs.labels = std::ranges::none_of(tensors, is_float, &Tensor::type) &&
                     std::ranges::all_of(tensors, is_integer, &Tensor::type);
  const auto counts = [&](const Tensor& t) { return outputs.labels ? is_integer(t.type()) : is_float(t.type()); };
  const auto first = std::ranges::find_if(tensors, counts);
  if (first == tensors.end()) {
    const bool of_trees = std::ranges::count(tensors, DataType::kUndefined, &Tensor::type) > 0;
    std::vector<std::string_view> found;
    for (const Tensor& t : tensors)
      found.push_back(t.type() == DataType::kUndefined ? "no tensor" : to_string(t.type()));
    throw Error(Code::kInvalidInput,
                fmt::format("{} outputs of the types {} found; one of numbers was expected; export the model with its "
                            "scores as an output{}",
                            asked_by, fmt::join(found, ", "), of_trees ? " (skl2onnx: zipmap=False)" : ""));
  }
  if (outputs.maker) {
    const std::vector<float> row = outputs.maker->row(tensors);
    outputs.dims = {1, std::ssize(row)};
    return outputs.append(row);
  }
  outputs.place = static_cast<size_t>(first - tensors.begin());
  if (outputs.pooling != Pooling::kNone) append_embedding(outputs, *first, counted);
  else if (outputs.classes_second) append_map(outputs, *first);
  else append_values(outputs, *first, counted);
  for (size_t place = outputs.place + 1; fresh && place < tensors.size(); ++place)
    if (counts(tensors[place]) && tensors[place].element_count() > 0)
      outputs.others.push_back({.dims = tensors[place].dims(), .place = place});
  std::erase_if(outputs.others, [&](const Outputs& other) {
    if (other.place >= tensors.size()) return true;
    const std::vector<int64_t>& dims = tensors[other.place].dims();
    const bool beside_the_first = are_positions(dims, other.dims) && dims == first->dims();
    return dims != other.dims && !beside_the_first;
  });
  for (Outputs& other : outputs.others) append_values(other, tensors[other.place], {});
}

std::vector<Tensor> answers_among(std::span<const Tensor> outputs, const std::vector<std::string>& names) {
  std::vector<Tensor> answers;
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!is_memory(names.at(o))) answers.push_back(outputs[o]);
  return answers;
}

std::vector<std::string> answer_names(std::vector<std::string> names) {
  std::erase_if(names, is_memory);
  return names;
}

}  // namespace seqto::internal
