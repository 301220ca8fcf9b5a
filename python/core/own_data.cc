// Samples that are read one by one from a Python sequence.
#include <algorithm>
#include <numeric>

#include "data.h"
#include "own_parts.h"
#include "seqto/positions.h"

namespace seqto::python {
namespace {

bool equal(const Sample& a, const Sample& b) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.dims() == y.dims() && std::ranges::equal(x.bytes(), y.bytes());
  };
  return a.label == b.label && a.target == b.target && std::ranges::equal(a.inputs, b.inputs, same);
}

class SequenceDataset : public Dataset {
 public:
  SequenceDataset(nb::handle sequence, std::span<const ValueInfo> inputs, const DatasetOptions& options)
      : sequence_(nb::borrow(sequence)), inputs_(inputs.begin(), inputs.end()), indices_(nb::len(sequence)) {
    std::iota(indices_.begin(), indices_.end(), 0);
    if (indices_.empty())
      throw Error(Code::kInvalidInput, "[data] a sequence of no samples found; at least one expected");
    const nb::object given = item(0);
    has_labels_ = gives_label(given, inputs_);
    const Sample first = sample_of(given, inputs_);
    if (!equal(first, read(0)))
      throw Error(Code::kInvalidInput,
                  "[data] sample 0 has other values when it is read again; the same each time expected; leave random "
                  "augmentation out");
    take(options);
  }

  int64_t size() const override { return std::ssize(indices_); }
  bool has_labels() const override { return has_labels_; }

  Sample read(int64_t index) const override {
    const int64_t at = indices_[static_cast<size_t>(index)];
    nb::gil_scoped_acquire interpreter;
    Sample sample = sample_of(item(at), inputs_);
    sample.name = std::to_string(at);
    sample.position = at;
    return sample;
  }

  // Of some of the samples, evenly spaced: all would have to be read for it.
  std::string fingerprint() const override {
    constexpr int64_t kRead = 8;
    nb::gil_scoped_acquire interpreter;
    nb::object hash = nb::module_::import_("hashlib").attr("sha256")();
    const auto add = [&](const auto* values, size_t count) {
      hash.attr("update")(nb::bytes(reinterpret_cast<const char*>(values), count * sizeof(*values)));
    };
    const int64_t count = std::min(kRead, size());
    for (int64_t i = 0; i < count; ++i) {
      const Sample sample = read(i * size() / count);
      for (const Tensor& tensor : sample.inputs) {
        add(tensor.dims().data(), tensor.dims().size());
        add(tensor.bytes().data(), tensor.bytes().size());
      }
      add(sample.target.data(), sample.target.size());
      add(&sample.label, 1);
    }
    const int64_t samples = size();
    add(&samples, 1);
    return nb::cast<std::string>(hash.attr("hexdigest")());
  }

 private:
  nb::object item(int64_t at) const { return sequence_.get()[nb::int_(at)]; }

  void take(const DatasetOptions& options) {
    require_number_of_samples(options);
    if (options.samples <= 0 || options.samples >= size()) return;
    if (options.order == SampleOrder::kMixed) indices_ = mixed_order(*this, options.seed);
    indices_.resize(static_cast<size_t>(options.samples));
    std::ranges::sort(indices_);
  }

  const Held sequence_;
  const std::vector<ValueInfo> inputs_;
  std::vector<int64_t> indices_;
  bool has_labels_ = false;
};

}  // namespace

bool is_sequence_of_samples(nb::handle given) {
  const auto has = [&](const char* attribute) { return nb::hasattr(given, attribute); };
  return has("__len__") && has("__getitem__") && !nb::isinstance<nb::list>(given) &&
         !nb::isinstance<nb::tuple>(given) && !nb::isinstance<nb::str>(given) && !nb::isinstance<nb::bytes>(given) &&
         !has("keys") && !has("__array__") && !has("get_next") && !has("__fspath__");
}

std::unique_ptr<Dataset> open_sequence(nb::handle sequence, std::span<const ValueInfo> inputs,
                                       const DatasetOptions& options) {
  return with_positions(std::make_unique<SequenceDataset>(sequence, inputs, options), inputs);
}

}  // namespace seqto::python
