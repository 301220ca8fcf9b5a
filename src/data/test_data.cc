// ONNX's test data: folders test_data_set_<n> with input_<n>.pb and output_<n>.pb, a serialized tensor each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/files.h"
#include "base/hash.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/select.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// The number in "input_12.pb" or "test_data_set_3"; -1 where the name is another.
int64_t number_of(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size()) return -1;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int64_t number = -1;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && stop == digits.data() + digits.size() ? number : -1;
}

// The entries of a folder of that form, by number.
std::vector<fs::path> numbered(const fs::path& folder, std::string_view prefix, std::string_view suffix) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int64_t number = number_of(entry.path().filename().string(), prefix, suffix);
    if (number >= 0) found.emplace_back(number, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::vector<fs::path> test_sets(const fs::path& path) {
  if (!numbered(path, "input_", ".pb").empty()) return {path};
  return numbered(path, "test_data_set_", "");
}

std::vector<Initializer> tensors_of(const std::vector<fs::path>& files) {
  std::vector<Initializer> tensors;
  for (const fs::path& file : files) tensors.push_back(parse_tensor(read_file(file), file.string()));
  return tensors;
}

class TestData : public Dataset {
 public:
  TestData(std::vector<fs::path> sets, std::vector<int64_t> rows, std::span<const ValueInfo> inputs)
      : sets_(std::move(sets)), rows_(std::move(rows)), inputs_(inputs.begin(), inputs.end()) {
    read(0);
  }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t row(int64_t index) const override { return rows_[static_cast<size_t>(index)]; }
  bool has_labels() const override { return false; }

  Sample read(int64_t index) const override {
    const fs::path& set = sets_[rows_[index]];
    Sample sample{.name = set.filename().string(), .sequence = rows_[index]};
    const std::vector<Initializer> given = tensors_of(numbered(set, "input_", ".pb"));
    for (size_t i = 0; i < inputs_.size(); ++i) sample.inputs.push_back(input(set, given, i));
    sample.expected = tensors_of(numbered(set, "output_", ".pb"));
    return sample;
  }

  std::string fingerprint() const override {
    std::string text = "test data\n";
    for (const int64_t row : rows_) {
      text += sets_[row].filename().string() + "\n";
      for (const fs::path& file : numbered(sets_[row], "input_", ".pb")) {
        text += fmt::format("{}\t{}\n", file.filename().string(), sha256_file(file));
      }
    }
    return sha256_hex(text);
  }

 private:
  // By name where the file has it, else by position, as ONNX's own test runner takes them.
  Tensor input(const fs::path& set, const std::vector<Initializer>& given, size_t index) const {
    const ValueInfo& wanted = inputs_[index];
    auto found = std::find_if(given.begin(), given.end(), [&](const auto& g) { return g.name == wanted.name; });
    if (found == given.end() && given.size() == inputs_.size()) {
      found = given.begin() + static_cast<std::ptrdiff_t>(index);
    }
    if (found == given.end()) {
      std::vector<std::string> names;
      for (const Initializer& g : given) names.push_back(g.name);
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}: {} inputs found ({}); the model's input '{}' expected, by name or by one file "
                      "for each of {} inputs; check that the test data belong to the model",
                      set.string(), given.size(), fmt::join(names, ", "), wanted.name, inputs_.size()));
    }
    const Tensor& tensor = found->tensor;
    const auto dims = match_shape(tensor.dims(), wanted);
    const bool same_rank = !wanted.shape || wanted.shape->size() == tensor.dims().size();
    if (!dims || !same_rank) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: shape {} found for the model input '{}'; {} expected; check that the test "
                              "data belong to the model, or that --dim is right",
                              set.string(), shape_text(tensor.dims()), wanted.name, shape_text(wanted)));
    }
    return convert(tensor, wanted.type, fmt::format("{}, {}", set.string(), wanted.name));
  }

  std::vector<fs::path> sets_;
  std::vector<int64_t> rows_;  // indices into sets_
  std::vector<ValueInfo> inputs_;
};

}  // namespace

bool holds_test_data(const fs::path& path) { return !test_sets(path).empty(); }

std::unique_ptr<Dataset> open_test_data(const fs::path& path, std::span<const ValueInfo> inputs,
                                        const DatasetOptions& options) {
  if (!options.labels.empty() || (!options.preprocess.empty() && options.preprocess != "none")) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: test data found, labels or preprocessing asked for; its tensors are given to the "
                    "model as they are; leave both out",
                    path.string()));
  }
  std::vector<fs::path> sets = test_sets(path);
  std::vector<int64_t> rows = select(static_cast<int64_t>(sets.size()), options);
  return std::make_unique<TestData>(std::move(sets), std::move(rows), inputs);
}

}  // namespace seqto::internal
