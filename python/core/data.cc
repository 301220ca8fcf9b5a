#include "data.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "call.h"
#include "own_parts.h"
#include "seqto/error.h"
#include "seqto/positions.h"

namespace seqto::python {
namespace {

// Samples in memory.
class GivenDataset : public Dataset {
 public:
  explicit GivenDataset(std::vector<Sample> samples) : samples_(std::move(samples)) {
    for (size_t i = 0; i < samples_.size(); ++i) samples_[i].name = std::to_string(i);
    for (size_t i = 0; i < samples_.size(); ++i) samples_[i].position = static_cast<int64_t>(i);
  }
  int64_t size() const override { return std::ssize(samples_); }
  Sample read(int64_t index) const override { return samples_[static_cast<size_t>(index)]; }
  bool has_labels() const override {
    return std::ranges::any_of(samples_, [](const Sample& s) { return s.label >= 0; });
  }
  std::string fingerprint() const override { return "given by the caller"; }  // of no study: see data_file()

 private:
  std::vector<Sample> samples_;
};

[[noreturn]] void fail(const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput, "[data] " + found + " found; " + expected);
}

int64_t rank(const ValueInfo& input) { return input.shape ? std::ssize(*input.shape) : -1; }

std::string known_size(const Dimension& d) { return d.value >= 0 ? std::to_string(d.value) : "?"; }

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

void check_shape(const Tensor& tensor, const ValueInfo& input) {
  if (!input.shape) return;
  bool fits = std::ssize(tensor.dims()) == rank(input);
  for (size_t i = 0; fits && i < tensor.dims().size(); ++i)
    fits = (*input.shape)[i].value < 0 || (*input.shape)[i].value == tensor.dims()[i];
  if (fits) return;
  std::string wanted;
  for (const Dimension& d : *input.shape) wanted += (wanted.empty() ? "" : ", ") + known_size(d);
  fail("a sample of shape " + shape_text(tensor.dims()) + " for the input '" + input.name + "'",
       "[" + wanted + "] expected, the first axis being the batch");
}

// `count` rows of the first axis; `batch`: that axis stays.
Tensor rows(const Tensor& all, int64_t first, int64_t count, bool batch) {
  std::vector<int64_t> dims(all.dims().begin() + 1, all.dims().end());
  if (batch) dims.insert(dims.begin(), count);
  const size_t bytes = all.bytes().size() / static_cast<size_t>(std::max<int64_t>(all.dims()[0], 1));
  auto owner = std::make_shared<const Tensor>(all);
  const auto part = owner->bytes().subspan(static_cast<size_t>(first) * bytes, static_cast<size_t>(count) * bytes);
  return Tensor(all.type(), std::move(dims), std::move(owner), part);
}

std::vector<int64_t> labels_of(nb::handle given) {
  if (given.is_none()) return {};
  const Tensor labels = tensor_of(given, DataType::kInt64, false, "the labels");
  return {labels.values<int64_t>().begin(), labels.values<int64_t>().end()};
}

// A whole number; all else is a target.
bool is_label(const nb::object& truth) {
  const std::string kind = nb::cast<std::string>(truth.attr("dtype").attr("kind"));
  return std::string("iub").find(kind) != std::string::npos && nb::cast<int64_t>(truth.attr("size")) == 1;
}

nb::object as_array(const nb::object& truth) { return nb::module_::import_("numpy").attr("asarray")(truth); }

struct Columns {
  std::vector<Tensor> inputs;    // in the model's order
  nb::object truth{nb::none()};  // labels, or None
};

std::string use_of(const ValueInfo& input) { return "the input '" + input.name + "'"; }

// "'a', 'b'"
std::string keys_of(nb::handle given) {
  std::string names;
  for (nb::handle key : nb::borrow<nb::iterable>(given.attr("keys")()))
    names += (names.empty() ? "" : ", ") + nb::cast<std::string>(nb::repr(key));
  return names.empty() ? "no array" : names;
}

Columns columns_of(nb::handle given, std::span<const ValueInfo> inputs, bool copy) {
  Columns columns;
  const bool named = nb::hasattr(given, "keys");
  const bool several = nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given);
  nb::list in_order;
  if (several)
    for (nb::handle item : nb::borrow<nb::iterable>(given)) in_order.append(item);
  else if (!named) in_order.append(given);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const char* name = inputs[i].name.c_str();
    if (named && !nb::cast<bool>(given.attr("__contains__")(name)))
      fail("data of " + keys_of(given) + " without '" + inputs[i].name + "'",
           "an array for each input of the model expected");
    if (!named && i >= in_order.size())
      fail(std::to_string(in_order.size()) + " arrays for a model of " + std::to_string(inputs.size()) + " inputs",
           "a dict with an array for each of them expected");
    columns.inputs.push_back(
        tensor_of(named ? nb::object(given[name]) : nb::object(in_order[i]), inputs[i].type, copy, use_of(inputs[i])));
  }
  if (!named && in_order.size() > inputs.size() + 1)
    fail(std::to_string(in_order.size()) + " arrays for a model of " + std::to_string(inputs.size()) + " inputs",
         "one for each of them expected, and labels behind them");
  const bool y_is_input = std::ranges::any_of(inputs, [](const ValueInfo& i) { return i.name == "y"; });
  if (named && !y_is_input && nb::cast<bool>(given.attr("__contains__")("y"))) columns.truth = given["y"];
  if (!named && in_order.size() > inputs.size()) columns.truth = in_order[inputs.size()];
  return columns;
}

// The rows that all columns share; scalars are the same in each.
int64_t count_rows(const Columns& columns) {
  int64_t count = -1;
  for (const Tensor& t : columns.inputs) {
    if (t.dims().empty()) continue;
    if (count >= 0 && t.dims()[0] != count)
      fail("arrays of " + std::to_string(count) + " and " + std::to_string(t.dims()[0]) + " samples",
           "equally many for every input expected");
    count = t.dims()[0];
  }
  return count;
}

// The batch that the model takes and no other: so many rows are one sample. 1 where it takes any, or one.
int64_t fixed_batch(const Columns& columns, std::span<const ValueInfo> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& shape = inputs[i].shape;
    const bool has_batch =
        !columns.inputs[i].dims().empty() && shape && std::ssize(columns.inputs[i].dims()) == rank(inputs[i]);
    if (has_batch && shape->front().value > 1) return shape->front().value;
  }
  return 1;
}

// Of a fixed batch what is left at the end is dropped, and labels are not known, as of files.
void append_rows(const Columns& columns, std::span<const ValueInfo> inputs, std::vector<Sample>& samples) {
  const int64_t count = count_rows(columns), batch = fixed_batch(columns, inputs);
  if (count < 0 && !inputs.empty()) check_shape(columns.inputs[0], inputs[0]);
  if (count >= 0 && count < batch)
    fail(std::to_string(count) + " samples", std::to_string(batch) + " or more expected, the fixed batch of the model");
  const std::vector<int64_t> labels = labels_of(columns.truth);
  if (!labels.empty() && std::ssize(labels) != count)
    fail(std::to_string(labels.size()) + " labels for " + std::to_string(count) + " samples", "one for each expected");
  for (int64_t k = 0; k + batch <= count; k += batch) {
    Sample sample;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& all = columns.inputs[i];
      const bool scalar = all.dims().empty(), of_one = batch == 1 && rank(inputs[i]) == std::ssize(all.dims()) - 1;
      sample.inputs.push_back(scalar ? all : rows(all, k, batch, !of_one));
      check_shape(sample.inputs.back(), inputs[i]);
    }
    if (!labels.empty() && batch == 1) sample.label = labels[static_cast<size_t>(k)];
    samples.push_back(std::move(sample));
  }
}

Sample whole(const Columns& batch, std::span<const ValueInfo> inputs) {
  Sample sample{.inputs = batch.inputs};
  for (size_t i = 0; i < inputs.size(); ++i) check_shape(sample.inputs[i], inputs[i]);
  if (const std::vector<int64_t> labels = labels_of(batch.truth); labels.size() == 1) sample.label = labels[0];
  return sample;
}

// Along the first axis, where the model takes batches of any size.
void append_batch(const Columns& batch, std::span<const ValueInfo> inputs, std::vector<Sample>& samples) {
  const bool one = batch.inputs.empty() || batch.inputs[0].dims().empty() || batch.inputs[0].dims()[0] == 1;
  if (!one && fixed_batch(batch, inputs) == 1) return append_rows(batch, inputs, samples);
  samples.push_back(whole(batch, inputs));
}

std::vector<Sample> samples_of(nb::handle given, std::span<const ValueInfo> inputs) {
  std::vector<Sample> samples;
  if (nb::hasattr(given, "get_next")) {
    for (nb::object item = given.attr("get_next")(); !item.is_none(); item = given.attr("get_next")())
      append_batch(columns_of(item, inputs, true), inputs, samples);
  } else if (nb::hasattr(given, "keys") || nb::hasattr(given, "__array__")) {
    append_rows(columns_of(given, inputs, false), inputs, samples);
  } else if (nb::hasattr(given, "__iter__") && !nb::isinstance<nb::bytes>(given)) {
    for (nb::handle item : nb::borrow<nb::iterable>(given))
      append_batch(columns_of(item, inputs, true), inputs, samples);
  } else {
    throw nb::type_error("data: a path, an array, a dict of arrays, an iterable of batches or a reader expected");
  }
  if (samples.empty()) fail("no samples", "at least one expected; is the reader used up? rewind it, or make a new one");
  return samples;
}

// What `samples` and `order` of the options ask for.
std::vector<Sample> chosen(std::vector<Sample> samples, const DatasetOptions& options) {
  require_number_of_samples(options);
  if (options.samples <= 0 || options.samples >= std::ssize(samples)) return samples;
  std::vector<int64_t> indices(samples.size());
  std::iota(indices.begin(), indices.end(), 0);
  if (options.order == SampleOrder::kMixed) indices = mixed_order(GivenDataset(samples), options.seed);
  indices.resize(static_cast<size_t>(options.samples));
  std::ranges::sort(indices);
  std::vector<Sample> result;
  for (int64_t i : indices) result.push_back(std::move(samples[static_cast<size_t>(i)]));
  return result;
}

// These say how files are read; what is in memory the model gets as it is.
void require_as_it_is(const DatasetOptions& o) {
  const std::pair<const char*, bool> given[] = {{"labels", !o.labels.empty()},
                                                {"preprocess", !o.preprocess.empty() && o.preprocess != "none"},
                                                {"random_samples", o.random_samples > 0},
                                                {"constants", !o.constants.empty()},
                                                {"states", !o.states.empty()}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      throw Error(Code::kUsage, std::string("[data] ") + name +
                                    " found beside data in memory, which the model gets as they are, an array for "
                                    "each input; leave it out, or give a file");
}

// The values of one input in all samples, one behind the other.
Tensor joined(const std::vector<Sample>& samples, size_t input, const std::string& name) {
  const Tensor& first = samples[0].inputs[input];
  const size_t bytes = first.bytes().size();
  std::vector<std::byte> values(bytes * samples.size());
  for (size_t k = 0; k < samples.size(); ++k) {
    const Tensor& t = samples[k].inputs[input];
    if (t.dims() != first.dims())
      fail("samples of different shapes for the input '" + name + "'",
           "equal ones expected; or give a folder or an .npz");
    std::memcpy(values.data() + k * bytes, t.bytes().data(), bytes);
  }
  std::vector<int64_t> dims = first.dims();
  if (!dims.empty() && dims[0] == 1) dims.erase(dims.begin());
  dims.insert(dims.begin(), std::ssize(samples));
  return Tensor::from(first.type(), std::move(dims), std::move(values));
}

}  // namespace

std::unique_ptr<Dataset> dataset_of(nb::handle given, const Model& model, const DatasetOptions& options,
                                    nb::handle source) {
  const auto inputs = model.graph.free_inputs();
  if (is_path(given)) {
    const std::filesystem::path path = path_of(given), model_file = is_path(source) ? path_of(source) : "";
    return call(nb::none(), [&](const Env& env) {
      return open_dataset(path, inputs,
                          model_file.empty() ? options : with_files_beside(model_file, path, options, env));
    });
  }
  require_as_it_is(options);
  if (is_sequence_of_samples(given)) return open_sequence(given, inputs, options);
  return with_positions(std::make_unique<GivenDataset>(chosen(samples_of(given, inputs), options)), inputs);
}

nb::object read_once(nb::handle given) {
  const bool reader = nb::hasattr(given, "get_next");
  const bool iterable = nb::hasattr(given, "__iter__") && !nb::hasattr(given, "keys") &&
                        !nb::hasattr(given, "__array__") && !nb::isinstance<nb::bytes>(given);
  if (is_path(given) || is_sequence_of_samples(given) || !(reader || iterable)) return nb::borrow(given);
  // A reader may fill one buffer again and again.
  const nb::object copy = nb::module_::import_("copy").attr("deepcopy");
  nb::list batches;
  if (reader)
    for (nb::object item = given.attr("get_next")(); !item.is_none(); item = given.attr("get_next")())
      batches.append(copy(item));
  else
    for (nb::handle item : nb::borrow<nb::iterable>(given)) batches.append(copy(item));
  return batches;
}

Sample batch_of(nb::handle given, std::span<const ValueInfo> inputs) {
  return whole(columns_of(given, inputs, true), inputs);
}

std::filesystem::path data_file(nb::handle given, std::span<const ValueInfo> inputs,
                                const std::filesystem::path& otherwise) {
  if (is_path(given)) return path_of(given);
  const std::vector<Sample> samples = samples_of(given, inputs);
  std::vector<Initializer> arrays;
  for (size_t i = 0; i < inputs.size(); ++i)
    arrays.push_back({inputs.size() == 1 ? "x" : inputs[i].name, joined(samples, i, inputs[i].name)});
  if (std::ranges::any_of(samples, [](const Sample& s) { return s.label >= 0; })) {
    std::vector<int64_t> labels;
    for (const Sample& s : samples) labels.push_back(s.label);
    arrays.push_back({"y", int64_tensor({std::ssize(labels)}, labels)});
  }
  save_npz(otherwise, arrays);
  return otherwise;
}

bool gives_label(nb::handle item, std::span<const ValueInfo> inputs) {
  const nb::object truth = columns_of(item, inputs, false).truth;
  return !truth.is_none() && is_label(as_array(truth));
}

Sample sample_of(nb::handle item, std::span<const ValueInfo> inputs) {
  const Columns one = columns_of(item, inputs, true);
  Sample sample;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& given = one.inputs[i];
    std::vector<int64_t> dims = given.dims();
    if (std::ssize(dims) == rank(inputs[i]) - 1) dims.insert(dims.begin(), 1);
    sample.inputs.push_back(given.reshaped(std::move(dims)));
    check_shape(sample.inputs.back(), inputs[i]);
  }
  if (one.truth.is_none()) return sample;
  const nb::object truth = as_array(one.truth);
  if (is_label(truth)) {
    sample.label = labels_of(truth)[0];
  } else {
    const Tensor target = tensor_of(truth, DataType::kFloat, true, "the target");
    sample.target = {target.values<float>().begin(), target.values<float>().end()};
  }
  return sample;
}

void require_number_of_samples(const DatasetOptions& options) {
  if (options.samples < 0)
    throw Error(Code::kInvalidInput, "[data] a negative number of samples found; 0 (all) or more expected");
}

std::vector<int64_t> all_samples(const Dataset& data) {
  std::vector<int64_t> samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

}  // namespace seqto::python
