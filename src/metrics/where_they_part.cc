#include "metrics/where_they_part.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "metrics/first_difference.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "seqto/error.h"
#include "seqto/verify.h"

namespace seqto::internal {
namespace {

constexpr double kSumsInFloat = 1e-9;  // another order of adding, in deep networks too
constexpr size_t kMostRefused = 16;    // then the runtime takes no part of the graph
constexpr double kJump = 25;           // of the error at one node; roundings alone come to 10 where a layer cancels

double mean(const Tensor& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.element_count(); ++i) sum += element(t, i);
  return sum / static_cast<double>(std::max<int64_t>(1, t.element_count()));
}

class Search {
 public:
  Search(const TwoRuntimes& on, const Env& env)
      : on_(on), env_(env), graph_(on.model.graph), view_(on.model), tensors_(tensors_between(graph_)) {
    for (const auto* infos : {&graph_.value_info, &graph_.outputs})
      for (const ValueInfo& info : *infos) infos_.emplace(info.name, &info);
    for (const Between& t : tensors_) between_.insert(t.name);
    leave_out_unsettled();
    for (size_t i = 0; i < tensors_.size(); ++i) places_[tensors_[i].name] = i;
    errors_.resize(tensors_.size());
  }

  Parting run(bool always) {
    Parting result;
    size_t last = 0;
    for (const ValueInfo& output : graph_.outputs)
      if (const auto place = places_.find(output.name); place != places_.end()) {
        const size_t i = place->second;
        if (error(i) >= result.error && !refused_.contains(i)) last = i, result.error = error(i);
      }
    if (result.error <= (always ? kSumsInFloat : kBeyondRounding)) return result;
    for (double limit = std::min(kBeyondRounding, result.error / kJump);;) {
      const size_t first = first_above(limit, last);
      if (refused_.contains(first)) {
        passed_over_.insert(first);
        continue;
      }
      const Stretch stretch = stretch_to(first);
      const size_t refused = refused_.size();
      const auto worst = std::ranges::max_element(stretch.reads, {}, [this](size_t i) { return error(i); });
      if (refused_.size() > refused) continue;  // it begins before those
      const double before = worst == stretch.reads.end() ? 0 : error(*worst);
      if (before <= kSumsInFloat || error(first) > kJump * before) {
        result.first = described(stretch, first);
        return result;
      }
      last = *worst, limit = std::min(kBeyondRounding, before / kJump);
    }
  }

 private:
  // Nodes whose values no cut shows, with the one that makes the tensor; settled tensors that they read.
  struct Stretch {
    size_t first_node = 0;
    std::vector<size_t> reads;
  };

  bool is_known_value(const std::string& tensor) const {
    const auto info = infos_.find(tensor);
    return info != infos_.end() && is_value(info->second->type);
  }

  void leave_out_unsettled() {
    std::unordered_set<std::string> unsettled;
    for (auto t = tensors_.rbegin(); t != tensors_.rend(); ++t) {
      const auto& readers = view_.edges.readers(t->name);
      const bool is_fused = std::ranges::any_of(readers, [&](const Node* reader) {
        return has(*reader, kPair) || (has(*reader, kClips) && unsettled.contains(reader->outputs[0]));
      });
      if (is_fused && !view_.outputs.contains(t->name)) unsettled.insert(t->name);
    }
    std::erase_if(tensors_, [&](const Between& t) { return unsettled.contains(t.name) || !is_known_value(t.name); });
  }

  Stretch stretch_to(size_t tensor) const {
    Stretch stretch{tensors_[tensor].node, {}};
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> open{&graph_.nodes[tensors_[tensor].node]};
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      stretch.first_node = std::min(stretch.first_node, view_.edges.place(*node));
      for (const std::string& input : node->inputs) {
        if (const auto place = places_.find(input); place != places_.end()) stretch.reads.push_back(place->second);
        else if (between_.contains(input) && is_known_value(input)) open.push_back(view_.edges.producer(input));
      }
    }
    return stretch;
  }

  size_t first_above(double limit, size_t last) {
    size_t first = 0;
    while (first < last) {
      const size_t middle = first + (last - first) / 2;
      if (error(middle) > limit && !passed_over_.contains(middle)) last = middle;
      else first = middle + 1;
    }
    return last;
  }

  Tensor value(size_t i, Runner& runner) const {
    Model cut = up_to(on_.model, std::span(tensors_).subspan(i, 1));
    cut.graph.outputs.front() = *infos_.at(tensors_[i].name);  // some runtimes ask for its shape
    return runner.load(cut)->run(on_.sample.inputs).at(0);
  }

  // Infinite where one of the two refuses the graph that ends there, though it takes the whole.
  double error(size_t i) {
    if (!errors_[i]) {
      env_.stop_if_cancelled("validate");
      try {
        const Tensor wanted = value(i, on_.reference);
        errors_[i] = relative_error(wanted, value(i, on_.candidate), is_code(wanted.type()) ? mean(wanted) : 0);
      } catch (const Error& error) {
        if (error.code() == Code::kInterrupted || refused_.size() == kMostRefused) throw;
        errors_[i] = std::numeric_limits<double>::infinity();
        refused_.insert(i);
        places_.erase(tensors_[i].name);
      }
    }
    return *errors_[i];
  }

  FirstDifference described(const Stretch& stretch, size_t tensor) const {
    const Node& node = graph_.nodes[stretch.first_node];
    FirstDifference first{node.name, node.op_type, tensors_[tensor].name, on_.sample.name};
    if (const auto d = difference_of(value(tensor, on_.reference), value(tensor, on_.candidate)))
      first.max_abs = d->max_abs, first.largest_abs = d->largest_abs;
    return first;
  }

  const TwoRuntimes& on_;
  const Env& env_;
  const Graph& graph_;
  GraphView view_;
  std::vector<Between> tensors_;  // settled ones
  std::unordered_set<std::string> between_;
  std::unordered_map<std::string, const ValueInfo*> infos_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::optional<double>> errors_;
  // Places where the graph is not cut after all; those that the search no longer takes for different.
  std::unordered_set<size_t> refused_, passed_over_;
};

}  // namespace

Parting where_they_part(const TwoRuntimes& on, bool always, const Env& env) { return Search(on, env).run(always); }

}  // namespace seqto::internal
