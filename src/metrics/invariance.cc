// The same samples in batches, filled up, in another order, on other threads: do they get the same bits?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "metrics/first_difference.h"
#include "metrics/together.h"
#include "runner/of_sample.h"
#include "seqto/error.h"
#include "seqto/validate.h"

namespace seqto {
namespace {

using internal::Alone;
using internal::Fill;
using internal::Together;

constexpr char kMask[] = "attention_mask";

// Whether a token's position is counted from the first real one: an input says it, or the mask is summed up.
bool counts_real_positions(const Graph& graph) {
  std::unordered_set<std::string> of_mask{kMask};
  for (const Node& node : graph.nodes) {
    if (std::ranges::none_of(node.inputs, [&](const auto& name) { return of_mask.contains(name); })) continue;
    if (node.op_type == "CumSum") return true;
    of_mask.insert(node.outputs.begin(), node.outputs.end());
  }
  return std::ranges::any_of(graph.free_inputs(), [](const ValueInfo& v) { return v.name == "position_ids"; });
}

class Variations {
 public:
  Variations(const ParitySide& model, const Env& env) : env_(env), runner_(*model.runner), path_(model.path) {
    session_ = runner_.load_file(path_);
    const auto& names = session_->input_names();
    const auto mask = std::ranges::find(names, kMask);
    if (mask != names.end()) mask_ = static_cast<size_t>(mask - names.begin());
    model_ = load_model(path_);
    name_nodes(model_);
    counts_positions_ = counts_real_positions(model_.graph);
    for (const ValueInfo& input : model_.graph.free_inputs()) {
      if (!input.shape || input.shape->empty() || input.shape->front().value > 0) open_batch_ = false;
      const bool fixed =
          input.name == kMask && input.shape && input.shape->size() == 2 && input.shape->back().value > 0;
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
    int64_t most = 0;  // samples that share a batch
    for (const auto& group : groups) most = std::max(most, std::ssize(group));
    if (!reversed && size > most && largest_batch_ == most) {
      v.left_out = fmt::format("no more than {} samples share one", most);
      return v;
    }
    v.size = size = std::min(size, most);
    if (!reversed) largest_batch_ = size;
    for (const auto& group : groups)
      for (size_t begin = 0; begin < group.size(); begin += static_cast<size_t>(size)) {
        const size_t end = std::min(group.size(), begin + static_cast<size_t>(size));
        std::vector<const Alone*> batch(group.begin() + static_cast<ptrdiff_t>(begin),
                                        group.begin() + static_cast<ptrdiff_t>(end));
        if (reversed) std::ranges::reverse(batch);
        int64_t filled = 0;
        for (const Alone* s : batch) filled = std::max(filled, s->positions);
        run(*session_, runner_, {std::move(batch), filled}, v);
      }
    return located(v);
  }

  Variation filled_up(int64_t positions, Fill fill) {
    const bool in_front = fill == Fill::kInFront;
    Variation v{.kind = in_front ? "padding_in_front" : "padding", .size = positions};
    if (!mask_) v.left_out = "no input attention_mask of an open length hides what is filled up";
    else if (in_front && !counts_positions_)
      v.left_out =
          "the model reads no position_ids and counts none from attention_mask: there each token has another position";
    else if (std::ranges::all_of(samples_, [&](const Alone& s) { return s.positions >= positions; }))
      v.left_out = "no sample is shorter";
    if (!v.left_out.empty()) return v;
    try {
      for (const Alone& s : samples_) run(*session_, runner_, {{&s}, std::max(positions, s.positions), fill}, v);
    } catch (const DeviceGone&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted || positions <= given_) throw;
      throw Error(error.code(), fmt::format("[validate] --pad-to {} found, and a model that does not run so many "
                                            "positions; fewer expected: the longest sample has {}",
                                            positions, given_));
    }
    return located(v);
  }

  Variation on(Runner& other, int64_t threads) {
    Variation v{.kind = "threads", .size = threads};
    const auto session = other.load_file(path_);
    for (const Alone& s : samples_) run(*session, other, {{&s}, s.positions}, v);
    return located(v);
  }

 private:
  void add(Sample sample) {
    env_.stop_if_cancelled("validate");
    Alone alone{.name = std::move(sample.name), .inputs = std::move(sample.inputs)};
    if (mask_ && alone.inputs[*mask_].dims().size() == 2 && alone.inputs[*mask_].dims()[0] == 1) {
      const Tensor mask = alone.inputs[*mask_];
      const int64_t given = mask.dims()[1];
      given_ = std::max(given_, given);
      int64_t begin = 0, end = given;
      while (end > 1 && element(mask, end - 1) == 0) --end;
      while (counts_positions_ && begin < end - 1 && element(mask, begin) == 0) ++begin;
      alone.positions = end - begin;
      for (Tensor& t : alone.inputs)
        if (internal::is_sequence(t, given)) t = internal::sequence_part(t, begin, end);
    }
    alone.outputs = internal::of_sample(alone.name, [&] { return session_->run(alone.inputs); });
    samples_.push_back(std::move(alone));
  }

  // Samples that may share a batch.
  std::vector<std::vector<const Alone*>> alike() const {
    std::map<std::string, std::vector<const Alone*>> groups;
    for (const Alone& s : samples_) {
      std::string shape;
      for (const Tensor& t : s.inputs)
        for (const int64_t dim : t.dims())
          shape += s.positions > 0 && internal::is_sequence(t, s.positions) ? "-" : fmt::format("{} ", dim);
      groups[shape].push_back(&s);
    }
    std::vector<std::vector<const Alone*>> result;
    for (auto& [_, group] : groups) result.push_back(std::move(group));
    return result;
  }

  void run(Session& session, Runner& runner, Together together, Variation& v) {
    env_.stop_if_cancelled("validate");
    const std::vector<Tensor> found = session.run(internal::stacked_inputs(together));
    for (size_t place = 0; place < together.samples.size(); ++place) {
      const Alone& sample = *together.samples[place];
      bool same = true;
      for (size_t o = 0; o < found.size(); ++o) {
        const auto part = internal::own_part(found[o], sample.outputs[o], together, place);
        if (!part) {
          v.not_compared.insert(session.output_names()[o]);
          continue;
        }
        const auto difference = internal::difference_of(sample.outputs[o], *part);
        if (!difference) continue;
        same = false;
        if (add(*difference, sample.name, v)) worst_ = {together, place, &runner};
      }
      v.changed += !same;
    }
  }

  // Whether it is the worst of the variation.
  static bool add(const internal::Difference& difference, const std::string& sample, Variation& v) {
    if (!(difference.max_abs <= v.max_abs) && !std::isnan(v.max_abs)) v.max_abs = difference.max_abs;
    const double cosine = difference.cosine;
    const bool is_worse = std::isnan(cosine) ? !std::isnan(v.worst_cosine) : cosine < v.worst_cosine;
    if (!v.worst_sample.empty() && !is_worse) return false;
    v.worst_cosine = cosine;
    v.worst_sample = sample;
    return true;
  }

  // With the node where the difference of its worst sample begins.
  Variation located(Variation v) const {
    if (v.changed > 0) v.first = internal::first_difference(model_, runner_, worst_, env_);
    return v;
  }

  const Env& env_;
  Runner& runner_;
  std::string path_;
  Model model_;
  std::unique_ptr<Session> session_;
  std::optional<size_t> mask_;
  bool open_batch_ = true, counts_positions_ = false;
  int64_t given_ = 0;          // positions of the longest sample as the data have it
  int64_t largest_batch_ = 0;  // that was tried
  std::vector<Alone> samples_;
  internal::InRun worst_;  // the farthest off of the variation under way
};

}  // namespace

bool begins_at_a_scale(const Variation& v) { return v.first && v.first->op_type.starts_with("DynamicQuantize"); }

bool passed(const Variation& v) {
  // With padding in front a softmax may add in another order: no scheme does anything about that.
  return v.changed == 0 || (v.kind == "padding_in_front" && !begins_at_a_scale(v));
}

bool passed(const Invariance& invariance) {
  return std::ranges::all_of(invariance.variations, [](const Variation& v) { return passed(v); });
}

Invariance find_variations(const ParitySide& model, const InvarianceOptions& options, const Env& env) {
  if (model.data->size() < 2)
    throw Error(Code::kInvalidInput,
                fmt::format("[validate] --invariance and {} sample found; at least 2 expected", model.data->size()));
  Variations variations(model, env);
  Invariance result{.model = model.path, .runner = model.runner->description(), .samples = variations.samples()};
  for (const int64_t size : options.batches) result.variations.push_back(variations.in_batches(size, false));
  result.variations.push_back(variations.in_batches(8, true));
  const int64_t padding = options.padding > 0 ? options.padding : variations.longest();
  for (const Fill fill : {Fill::kBehind, Fill::kInFront})
    result.variations.push_back(variations.filled_up(padding, fill));
  if (options.other) result.variations.push_back(variations.on(*options.other, options.other_threads));
  return result;
}

}  // namespace seqto
