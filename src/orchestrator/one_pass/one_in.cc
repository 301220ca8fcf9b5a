#include "seqto/one_in.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/files.h"
#include "base/json.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/loss/output_values.h"
#include "model/to_float32.h"
#include "model/unneeded.h"
#include "orchestrator/one_pass/cuts.h"
#include "orchestrator/one_pass/values_file.h"
#include "quantization/plan/shared_weights.h"
#include "search/strategies/knapsack.h"
#include "seqto/error.h"
#include "seqto/task.h"

namespace seqto {
namespace {

using namespace internal;

// A plan on its way through the blocks.
struct Candidate {
  Plan plan;
  bool differs = false;        // from the float model by now
  std::vector<Losses> losses;  // of each sample, at the end
  // Bytes in the file of constants that blocks of it do without, and of its own in their place.
  std::map<std::string, int64_t> gone, stored;
  std::set<std::string> kept;  // constants of several blocks that some of them read
  int64_t bytes_saved = 0;     // by its nodes
  std::string failure;
};

int64_t bytes_of(const std::vector<Node>& nodes) {
  Model part;
  part.graph.nodes = nodes;
  return serialized_size(without_export_notes(part));
}

int64_t bytes_of(const Initializer& constant) {
  Model part;
  part.graph.initializers.push_back(constant);
  return serialized_size(part) - serialized_size(Model());
}

// Of the file, names and nodes too: of small layers they are a part of it that counts.
int64_t bytes_saved(const Candidate& candidate) {
  int64_t bytes = candidate.bytes_saved;
  for (const auto& [name, size] : candidate.gone)
    if (!candidate.kept.contains(name)) bytes += size;
  for (const auto& [name, size] : candidate.stored) bytes -= size;
  return bytes;
}

Plan within(const Plan& plan, const std::unordered_set<LayerId>& nodes) {
  Plan part;
  for (const auto& [layer, scheme] : plan.schemes)
    if (nodes.contains(layer)) part.schemes[layer] = scheme;
  for (const auto& [layer, fields] : plan.options)
    if (nodes.contains(layer)) part.options[layer] = fields;
  return part;
}

// All blocks, one after the other, of the float model and every candidate.
class Pass {
 public:
  Pass(const Model& model, const Ranges& ranges, const OneInOptions& options, const SampleRun& on, OneIn& result)
      : model_(model), ranges_(ranges), options_(options), on_(on), result_(result) {}

  void run(std::vector<Candidate>& candidates) {
    constexpr int64_t kBlocks = 16;
    int64_t all = 0;
    for (const Initializer& i : model_.graph.initializers) all += i.tensor.element_count() * int64_t{sizeof(float)};
    const std::vector<Block> parts = blocks(model_, std::min(options_.block_bytes, all / kBlocks));
    result_.blocks = parts.size();
    for (const Block& part : parts)
      for (const Initializer& i : part.model.graph.initializers)
        if (++blocks_left_[i.name] == 2) shared_.insert(i.name);
    if (parts.size() > 1) weights_ = shared_weights(model_, GraphView(model_));
    for (size_t b = 0; b < parts.size(); ++b) {
      block_ = &parts[b];
      is_last_ = b + 1 == parts.size();
      on_.env.progress({.verb = "one-in", .done = static_cast<int64_t>(b), .total = std::ssize(parts)});
      pass_block(candidates);
    }
  }

 private:
  void pass_block(std::vector<Candidate>& candidates) {
    for (const Initializer& i : block_->model.graph.initializers) {
      i.tensor.fetch();
      result_.read_bytes += std::ssize(i.tensor.bytes());
    }
    const int64_t start = on_.env.clock_ns();
    context_ = with_readers(block_->model);
    std::unordered_set<LayerId> nodes;
    for (const Node& node : context_.graph.nodes) nodes.insert(node.name);
    ValuesFile next(folder_.path / "values");
    next_ = &next;
    // A head that is tied to the embedding reads it through a Transpose: unfolded, it costs nothing.
    auto session = on_.runner.load(to_float32(block_->model), {.prepack = false, .fold_constants = false});
    run_float(*session);
    result_.forward_seconds += static_cast<double>(on_.env.clock_ns() - start) / 1e9;
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (!within(candidates[c].plan, nodes).schemes.empty()) continue;
      for (const Initializer& i : block_->model.graph.initializers)
        if (shared_.contains(i.name)) candidates[c].kept.insert(i.name);
      if (candidates[c].differs) run_candidate(*session, candidates[c], c + 1);
    }
    session.reset();
    for (size_t c = 0; c < candidates.size(); ++c) {
      Candidate& candidate = candidates[c];
      const Plan part = within(candidate.plan, nodes);
      if (part.schemes.empty() || !candidate.failure.empty()) continue;
      try {
        // Prepacked as in use: without, the runtime has another kernel for few bits, with other answers.
        run_candidate(*on_.runner.load(quantized(part, candidate), {.fold_constants = false}), candidate, c + 1);
      } catch (const Error& error) {  // as in a study, a candidate that fails is an entry that says why
        if (error.code() == Code::kInterrupted) throw;
        candidate.failure = error.what();
        candidate.differs = false;
      }
    }
    values_ = std::move(next);
    // Pages of the file that stay in the system's cache would push those of the next blocks out of it.
    for (const Initializer& i : block_->model.graph.initializers)
      if (--blocks_left_[i.name] == 0) i.tensor.drop();
      else i.tensor.release();
  }

  // The block and the nodes behind or in front of it that share its weights.
  Model with_readers(const Model& block) const {
    std::unordered_set<std::string> constants, names;
    for (const Initializer& i : block.graph.initializers)
      if (shared_.contains(i.name)) constants.insert(i.name);
    for (const Node& node : block.graph.nodes) names.insert(node.name);
    std::vector<size_t> readers;
    for (const SharedWeight& weight : weights_)
      for (const size_t i : weight.readers)
        if (constants.contains(weight.name) && !names.contains(model_.graph.nodes[i].name)) readers.push_back(i);
    return readers.empty() ? block : beside_block(model_, block, readers);
  }

  // The block under that plan. What a Quantizer keeps, and the block in float32, are as large as the block: neither is
  // kept from one candidate to the next.
  Model quantized(const Plan& part, Candidate& candidate) {
    QuantizeOptions options = options_.quantize;
    options.exclude.clear(), options.include.clear();  // the plan has them out already
    const Model model = to_float32(context_), block = to_float32(block_->model, false);
    Model result = Quantizer(model, ranges_, std::move(options)).quantize(part);
    if (model.graph.nodes.size() > block.graph.nodes.size()) result = only_block(result, block);
    count_bytes(candidate, block, result);
    return result;
  }

  // From the values of `owner` at the last cut.
  std::vector<Tensor> outputs(Session& session, size_t at, size_t owner) {
    on_.env.stop_if_cancelled("one-in");
    std::vector<Tensor> inputs;
    if (values_) inputs.push_back(values_->get(owner, at));
    if (!block_->inputs.empty()) {
      const Sample sample = on_.data.read(on_.samples[at]);
      for (const size_t i : block_->inputs) inputs.push_back(to_float32(sample.inputs.at(i)));
    }
    return session.run(inputs);
  }

  void run_float(Session& session) {
    for (size_t at = 0; at < on_.samples.size(); ++at) {
      const std::vector<Tensor> found = outputs(session, at, kFloat);
      if (is_last_ && at == 0) read_task(on_.data.read(on_.samples[at]), found);
      for (size_t o = 0; o < found.size(); ++o) next_->put(is_last_ ? o : kFloat, at, to_float32(found[o]));
    }
  }

  void run_candidate(Session& session, Candidate& candidate, size_t owner) {
    for (size_t at = 0; at < on_.samples.size(); ++at) {
      const std::vector<Tensor> found = outputs(session, at, candidate.differs ? owner : kFloat);
      if (is_last_) candidate.losses.push_back(compared(at, found));
      else next_->put(owner, at, found.at(0));
    }
    candidate.differs = true;
  }

  void read_task(const Sample& sample, std::span<const Tensor> answer) {
    Outputs outputs;
    append_outputs(outputs, answer, "[one-in]", sample.counted);
    const Reading reading = find_reading(options_.metrics, model_, {.outputs = outputs, .sample = sample});
    result_.task = reading.task->name;
    result_.loss = reading.task->loss;
    form_ = reading.outputs();
  }

  // A row at a time: those of a language model are large.
  Losses compared(size_t at, std::span<const Tensor> found) {
    const Sample sample = on_.data.read(on_.samples[at]);
    std::vector<Tensor> wanted;
    for (size_t o = 0; o < found.size(); ++o) wanted.push_back(next_->get(o, at));
    Outputs a = form_, b = form_;
    append_outputs(a, wanted, "[one-in]", sample.counted);
    append_outputs(b, found, "[one-in]", sample.counted);
    return compare(a, b);
  }

  void count_bytes(Candidate& candidate, const Model& model, const Model& quantized) const {
    std::unordered_set<std::string> before, after;
    for (const Initializer& i : model.graph.initializers) before.insert(i.name);
    for (const Initializer& i : quantized.graph.initializers) {
      after.insert(i.name);
      if (!before.contains(i.name)) candidate.stored.emplace(i.name, bytes_of(i));
    }
    for (const Initializer& i : block_->model.graph.initializers)  // in the types of the file
      if (!after.contains(i.name)) candidate.gone.emplace(i.name, bytes_of(i));
      else if (shared_.contains(i.name)) candidate.kept.insert(i.name);
    candidate.bytes_saved += bytes_of(model.graph.nodes) - bytes_of(quantized.graph.nodes);
  }

  const Model& model_;
  const Ranges& ranges_;
  const OneInOptions& options_;
  const SampleRun& on_;
  OneIn& result_;
  TemporaryFolder folder_;
  std::vector<SharedWeight> weights_;                 // that several layers read
  std::unordered_set<std::string> shared_;            // constants that several blocks read
  std::unordered_map<std::string, int> blocks_left_;  // how many blocks are still to read a constant
  const Block* block_ = nullptr;
  Model context_;  // the block as the quantizer sees it
  bool is_last_ = false;
  static constexpr size_t kFloat = 0;  // owner of values; candidates are those behind it
  std::optional<ValuesFile> values_;   // at the cut before the block
  ValuesFile* next_ = nullptr;         // behind it; of the last block the float model's outputs, by their places
  Outputs form_;                       // without rows: how answers are read
};

// What each layer can hold, where it may be quantized.
std::unordered_map<LayerId, std::vector<Scheme>> open_layers(const Model& model, const QuantizeOptions& options) {
  const std::unordered_set<LayerId> excluded(options.exclude.begin(), options.exclude.end());
  const std::unordered_set<LayerId> included(options.include.begin(), options.include.end());
  std::unordered_map<LayerId, std::vector<Scheme>> open;
  for (Layer& layer : layers(model))
    if (!excluded.contains(layer.id) && (included.empty() || included.contains(layer.id)))
      open[layer.id] = std::move(layer.schemes);
  return open;
}

// `layers` in the scheme, those that can hold it and may.
Plan plan_of(const std::vector<LayerId>& layers, const DetailedScheme& scheme,
             const std::unordered_map<LayerId, std::vector<Scheme>>& open, const Model& model) {
  Plan plan;
  for (const LayerId& layer : layers) {
    const auto found = open.find(layer);
    if (found == open.end() || std::ranges::count(found->second, scheme.scheme) == 0) continue;
    plan.schemes[layer] = scheme.scheme;
    if (!scheme.fields.empty()) plan.options[layer] = scheme.fields;
  }
  widen_tied_weights(plan, model);
  return plan;
}

std::vector<Origin> origins_of(const SampleRun& on) {
  std::vector<Origin> origins;
  for (const int64_t index : on.samples) {
    const Sample sample = on.data.read(index);
    origins.push_back({sample.source, sample.position});
  }
  return origins;
}

}  // namespace

double OneIn::loss_of(const Entry& entry) const {
  for (const LossField& field : kLossFields)
    if (field.name == loss) return entry.losses.*field.value;
  return entry.losses.kl;
}

OneIn one_in(const Model& model, const Ranges& ranges, const OneInOptions& options, const SampleRun& on) {
  const Model shape = to_float32(model, false);
  const auto open = open_layers(shape, options.quantize);
  OneIn result{.schemes = options.schemes, .model_bytes = serialized_size(without_export_notes(model))};
  std::vector<Candidate> candidates;
  for (const auto& group : groups(shape, options.groups)) {
    std::vector<Plan> plans;
    for (const DetailedScheme& scheme : options.schemes) plans.push_back(plan_of(group, scheme, open, shape));
    if (std::ranges::all_of(plans, [](const Plan& plan) { return plan.schemes.empty(); })) continue;
    for (size_t s = 0; s < plans.size(); ++s) {
      if (plans[s].schemes.empty()) continue;
      result.entries.push_back({.group = result.groups.size(), .scheme = s, .plan = plans[s]});
      candidates.emplace_back().plan = std::move(plans[s]);
    }
    result.groups.push_back(group);
  }
  if (candidates.empty())
    throw Error(Code::kInvalidInput,
                "[one-in] no layer found that any of these schemes can hold; layers with float weights expected; "
                "`seqto inspect` lists what each layer can be");
  const int64_t start = on.env.clock_ns();
  Pass(model, ranges, options, on, result).run(candidates);
  result.seconds = static_cast<double>(on.env.clock_ns() - start) / 1e9;
  const Blocks blocks = blocks_of(origins_of(on));
  std::vector<OneIn::Entry> entries;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (candidate.failure.empty() && candidate.gone.empty() && candidate.stored.empty()) continue;
    OneIn::Entry& entry = entries.emplace_back(std::move(result.entries[i]));
    entry.failure = candidate.failure;
    entry.bytes_saved = bytes_saved(candidate);
    if (!entry.failure.empty()) continue;
    entry.losses = mean(candidate.losses);
    std::vector<double> each;
    for (const Losses& losses : candidate.losses) each.push_back(result.loss_of({.losses = losses}));
    entry.interval = bootstrap_mean(each, blocks);
  }
  result.entries = std::move(entries);
  return result;
}

std::string one_in_to_json(const OneIn& result) {
  using Json = nlohmann::ordered_json;
  Json groups = Json::array();
  for (const auto& layers : result.groups) groups.push_back({{"layers", layers}, {"schemes", Json::array()}});
  for (const OneIn::Entry& entry : result.entries) {
    Json row{{"scheme", to_string(result.schemes[entry.scheme])},
             {"plan", parse_json<Json>(plan_to_json(entry.plan))["schemes"]},
             {"bytes_saved", entry.bytes_saved}};
    if (entry.failure.empty()) {
      for (const LossField& field : kLossFields) row["losses"][std::string(field.name)] = entry.losses.*field.value;
      row["interval"] = {entry.interval.low, entry.interval.high};
    } else {
      row["failure"] = entry.failure;
    }
    groups[entry.group]["schemes"].push_back(std::move(row));
  }
  return Json{{"schema_version", 1},
              {"task", result.task},
              {"loss", result.loss},
              {"model_bytes", result.model_bytes},
              {"read_bytes", result.read_bytes},
              {"blocks", result.blocks},
              {"seconds", result.seconds},
              {"forward_seconds", result.forward_seconds},
              {"groups", groups}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Plan> plan_within(const OneIn& result, int64_t bytes) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  const size_t choices = result.schemes.size() + 1;  // float first
  ChoiceTable loss(result.groups.size(), std::vector<double>(choices, kFailed)), cost = loss;
  for (size_t g = 0; g < loss.size(); ++g) loss[g][0] = 0, cost[g].assign(choices, 0);
  for (const OneIn::Entry& entry : result.entries) {
    if (!entry.failure.empty()) continue;
    loss[entry.group][entry.scheme + 1] = std::max(0.0, result.loss_of(entry));
    cost[entry.group][entry.scheme + 1] = -static_cast<double>(entry.bytes_saved);
  }
  double most = 0;
  for (const auto& row : cost) most -= *std::ranges::min_element(row);
  const double wanted = static_cast<double>(result.model_bytes - bytes);
  if (wanted > most) return {};
  // Costs are rounded in the program: the first of ever larger shares whose plan is small enough.
  std::vector<double> shares;
  for (double share = std::max(0.0, wanted / most); share < 1; share += 0.001) shares.push_back(share);
  shares.push_back(1);
  for (const Assignment& assignment : least_losses(loss, cost, shares)) {
    if (-total(cost, assignment) < wanted) continue;
    Plan plan;
    for (const OneIn::Entry& entry : result.entries)
      if (static_cast<size_t>(assignment[entry.group]) == entry.scheme + 1) {
        plan.schemes.insert(entry.plan.schemes.begin(), entry.plan.schemes.end());
        plan.options.insert(entry.plan.options.begin(), entry.plan.options.end());
      }
    return plan;
  }
  return {};
}

}  // namespace seqto
