// The same samples in batches, filled up, in another order, on other threads: do they get the same bits?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "seqto/error.h"
#include "seqto/validate.h"

namespace seqto {
namespace {

using Inputs = std::vector<Tensor>;

Tensor of_bytes(DataType type, std::vector<int64_t> dims, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return {type, std::move(dims), std::move(owner), view};
}

// One sequence, [1, positions].
bool is_sequence(const Tensor& t, int64_t positions) {
  return t.dims().size() == 2 && t.dims()[0] == 1 && t.dims()[1] == positions;
}

// Its first positions, or as many more zeros.
Tensor with_positions(const Tensor& t, int64_t positions) {
  const size_t width = t.bytes().size() / static_cast<size_t>(t.dims()[1]);
  std::vector<std::byte> bytes(width * static_cast<size_t>(positions));
  std::memcpy(bytes.data(), t.bytes().data(), std::min(bytes.size(), t.bytes().size()));
  return of_bytes(t.type(), {1, positions}, std::move(bytes));
}

struct Alone {
  std::string name;
  Inputs inputs;          // of its own length
  int64_t positions = 0;  // 0: it is no sequence that a mask belongs to
  std::vector<Tensor> outputs;
};

int64_t product(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// A sample's own part of a batch's output: its rows of the first axis, of the other axes as much as it has alone.
// Nothing where the samples are not along the first axis.
std::optional<Tensor> own_part(const Tensor& output, const Tensor& alone, int64_t place, int64_t batch) {
  const std::vector<int64_t>&all = output.dims(), &own = alone.dims();
  if (all == own) return output;
  if (own.size() != all.size() || own.empty() || all[0] != own[0] * batch) return {};
  for (size_t axis = 1; axis < own.size(); ++axis)
    if (own[axis] > all[axis]) return {};
  const int64_t count = output.element_count();
  if (count == 0 || alone.element_count() == 0) return of_bytes(alone.type(), own, {});
  const size_t width = output.bytes().size() / static_cast<size_t>(count);
  const size_t run = own.size() > 1 ? static_cast<size_t>(own.back()) * width : width;
  const std::span outer(own.data(), std::max<size_t>(own.size() - 1, 1));
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < product(outer); ++i) {
    int64_t rest = i, from = 0, stride = own.size() > 1 ? all.back() : 1;
    for (size_t axis = outer.size(); axis-- > 0; rest /= own[axis], stride *= all[axis])
      from += (rest % own[axis] + (axis == 0 ? place * own[0] : 0)) * stride;
    const auto begin = output.bytes().begin() + static_cast<ptrdiff_t>(static_cast<size_t>(from) * width);
    bytes.insert(bytes.end(), begin, begin + static_cast<ptrdiff_t>(run));
  }
  return of_bytes(alone.type(), own, std::move(bytes));
}

class Variations {
 public:
  Variations(const ParitySide& model, const Env& env) : env_(env), runner_(*model.runner), path_(model.path) {
    session_ = runner_.load_file(path_);
    const auto& names = session_->input_names();
    const auto mask = std::ranges::find(names, "attention_mask");
    if (mask != names.end()) mask_ = static_cast<size_t>(mask - names.begin());
    const Model loaded = load_model(path_);
    for (const ValueInfo& input : loaded.graph.free_inputs()) {
      if (!input.shape || input.shape->empty() || input.shape->front().value > 0) open_batch_ = false;
      const bool fixed =
          input.name == "attention_mask" && input.shape && input.shape->size() == 2 && input.shape->back().value > 0;
      if (fixed) mask_.reset();  // of one length: nothing can be cut off or filled up
    }
    for (int64_t i = 0; i < model.data->size(); ++i) add(model.data->read(i));
  }

  int64_t samples() const { return std::ssize(samples_); }

  int64_t longest() const {
    int64_t most = 0;
    for (const Alone& s : samples_) most = std::max(most, s.positions);
    return std::max(most, given_);
  }

  Variation in_batches(int64_t size, bool reversed) {
    Variation v{.kind = reversed ? "order" : "batch", .size = size};
    if (!open_batch_) v.left_out = "the model takes batches of one size";
    const auto groups = alike();
    if (v.left_out.empty() && std::ranges::all_of(groups, [](const auto& g) { return g.size() < 2; }))
      v.left_out = "no two samples have one shape, and no attention_mask of an open length hides what is filled up";
    if (!v.left_out.empty()) return v;
    for (const auto& group : groups)
      for (size_t begin = 0; begin < group.size(); begin += static_cast<size_t>(size)) {
        const size_t end = std::min(group.size(), begin + static_cast<size_t>(size));
        std::vector<const Alone*> batch(group.begin() + static_cast<ptrdiff_t>(begin),
                                        group.begin() + static_cast<ptrdiff_t>(end));
        if (reversed) std::ranges::reverse(batch);
        int64_t filled = 0;
        for (const Alone* s : batch) filled = std::max(filled, s->positions);
        run(*session_, batch, filled, v);
      }
    return v;
  }

  Variation filled_up(int64_t positions) {
    Variation v{.kind = "padding", .size = positions};
    if (!mask_) v.left_out = "no input attention_mask of an open length hides what is filled up";
    else if (std::ranges::all_of(samples_, [&](const Alone& s) { return s.positions >= positions; }))
      v.left_out = "no sample is shorter";
    if (!v.left_out.empty()) return v;
    for (const Alone& s : samples_) run(*session_, {&s}, std::max(positions, s.positions), v);
    return v;
  }

  Variation on(Runner& other, int64_t threads) {
    Variation v{.kind = "threads", .size = threads};
    const auto session = other.load_file(path_);
    for (const Alone& s : samples_) run(*session, {&s}, s.positions, v);
    return v;
  }

 private:
  void add(Sample sample) {
    env_.stop_if_cancelled("validate");
    Alone alone{.name = std::move(sample.name), .inputs = std::move(sample.inputs)};
    if (mask_ && alone.inputs[*mask_].dims().size() == 2 && alone.inputs[*mask_].dims()[0] == 1) {
      const int64_t given = alone.inputs[*mask_].dims()[1];
      given_ = std::max(given_, given);
      alone.positions = given;
      while (alone.positions > 1 && element(alone.inputs[*mask_], alone.positions - 1) == 0) --alone.positions;
      for (Tensor& t : alone.inputs)
        if (is_sequence(t, given)) t = with_positions(t, alone.positions);
    }
    alone.outputs = session_->run(alone.inputs);
    samples_.push_back(std::move(alone));
  }

  // Samples that may share a batch.
  std::vector<std::vector<const Alone*>> alike() const {
    std::map<std::string, std::vector<const Alone*>> groups;
    for (const Alone& s : samples_) {
      std::string shape;
      for (const Tensor& t : s.inputs)
        for (const int64_t dim : t.dims())
          shape += s.positions > 0 && is_sequence(t, s.positions) ? "-" : fmt::format("{} ", dim);
      groups[shape].push_back(&s);
    }
    std::vector<std::vector<const Alone*>> result;
    for (auto& [_, group] : groups) result.push_back(std::move(group));
    return result;
  }

  static Tensor stacked(const std::vector<const Alone*>& batch, size_t input, int64_t filled) {
    std::vector<std::byte> bytes;
    Tensor last;
    for (const Alone* s : batch) {
      last = s->inputs[input];
      if (s->positions > 0 && is_sequence(last, s->positions)) last = with_positions(last, filled);
      bytes.insert(bytes.end(), last.bytes().begin(), last.bytes().end());
    }
    std::vector<int64_t> dims = last.dims();
    if (!dims.empty()) dims[0] *= std::ssize(batch);
    return of_bytes(last.type(), std::move(dims), std::move(bytes));
  }

  void run(Session& session, const std::vector<const Alone*>& batch, int64_t filled, Variation& v) const {
    env_.stop_if_cancelled("validate");
    Inputs inputs;
    for (size_t i = 0; i < batch[0]->inputs.size(); ++i) inputs.push_back(stacked(batch, i, filled));
    const std::vector<Tensor> found = session.run(inputs);
    for (size_t place = 0; place < batch.size(); ++place) {
      bool same = true;
      for (size_t o = 0; o < found.size(); ++o) {
        const Tensor& wanted = batch[place]->outputs[o];
        const auto part = own_part(found[o], wanted, static_cast<int64_t>(place), std::ssize(batch));
        if (!part) {
          v.not_compared.insert(session.output_names()[o]);
          continue;
        }
        if (std::ranges::equal(part->bytes(), wanted.bytes())) continue;
        same = false;
        compare(wanted, *part, batch[place]->name, v);
      }
      v.changed += !same;
    }
  }

  static void compare(const Tensor& wanted, const Tensor& found, const std::string& name, Variation& v) {
    double product = 0, a = 0, b = 0;
    for (int64_t i = 0; i < wanted.element_count(); ++i) {
      const double x = element(wanted, i), y = element(found, i);
      product += x * y, a += x * x, b += y * y;
      v.max_abs = std::max(v.max_abs, std::abs(x - y));
    }
    const double cosine = a > 0 && b > 0 ? product / std::sqrt(a * b) : 0;
    if (!v.worst_sample.empty() && !(cosine < v.worst_cosine)) return;
    v.worst_cosine = std::min(1.0, cosine);
    v.worst_sample = name;
  }

  const Env& env_;
  Runner& runner_;
  std::string path_;
  std::unique_ptr<Session> session_;
  std::optional<size_t> mask_;
  bool open_batch_ = true;
  int64_t given_ = 0;  // positions of the longest sample as the data have it
  std::vector<Alone> samples_;
};

}  // namespace

bool passed(const Invariance& invariance) {
  return std::ranges::all_of(invariance.variations, [](const Variation& v) { return v.changed == 0; });
}

Invariance find_variations(const ParitySide& model, const InvarianceOptions& options, const Env& env) {
  if (model.data->size() < 2)
    throw Error(Code::kInvalidInput,
                fmt::format("[validate] --invariance and {} sample found; at least 2 expected", model.data->size()));
  Variations variations(model, env);
  Invariance result{.model = model.path, .runner = model.runner->description(), .samples = variations.samples()};
  for (const int64_t size : options.batches) result.variations.push_back(variations.in_batches(size, false));
  result.variations.push_back(variations.in_batches(8, true));
  result.variations.push_back(variations.filled_up(options.padding > 0 ? options.padding : variations.longest()));
  if (options.other) result.variations.push_back(variations.on(*options.other, options.other_threads));
  return result;
}

}  // namespace seqto
