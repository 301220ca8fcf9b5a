// seqto analyze --one-in: what the answers lose where one group of layers alone is quantized.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "metric_flags.h"
#include "one_in_flags.h"
#include "print_json.h"
#include "seqto/bench.h"
#include "seqto/error.h"
#include "seqto/one_in.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

// The layers' names, the first and how many more.
std::string group_name(const std::vector<LayerId>& layers) {
  return layers.size() == 1 ? layers[0] : fmt::format("{} and {} more", layers[0], layers.size() - 1);
}

void print_one_in(const OneIn& result) {
  const bool interval =
      std::ranges::any_of(result.entries, [](const auto& e) { return e.interval.low < e.interval.high; });
  std::vector<const OneIn::Entry*> order;
  for (const OneIn::Entry& entry : result.entries) order.push_back(&entry);
  const auto rate = [&](const OneIn::Entry* e) {
    return e->failure.empty() ? result.loss_of(*e) / std::max<double>(1, static_cast<double>(e->bytes_saved))
                              : HUGE_VAL;
  };
  std::ranges::stable_sort(order, std::less(), rate);
  std::vector<TableRow> rows;
  for (const OneIn::Entry* e : order) {
    rows.push_back({group_name(result.groups[e->group]),
                    to_string(detailed_scheme(e->plan, e->plan.schemes.begin()->first)),
                    fmt::format("{:.1f}", static_cast<double>(e->bytes_saved) / 1000),
                    e->failure.empty() ? fmt::format("{:.3g}", result.loss_of(*e)) : "failed"});
    if (interval) rows.back().push_back(fmt::format("{:.2g} to {:.2g}", e->interval.low, e->interval.high));
  }
  std::vector<TableColumn> table{{"group, least loss for its bytes first", TableColumn::kName},
                                 {"scheme", TableColumn::kName},
                                 {"kB saved", TableColumn::kFigure},
                                 {result.loss, TableColumn::kFigure}};
  if (interval) table.push_back({"95 % interval", TableColumn::kFigure});
  for (const std::string& line : table_lines(table, rows, stdout_style())) fmt::print("{}\n", line);
  for (const OneIn::Entry* e : order)
    if (!e->failure.empty()) fmt::print("{} failed: {}\n", group_name(result.groups[e->group]), e->failure);
}

// `given`: the bytes of the model's file, of which a share is.
void write_plan_within(const OneIn& result, const OneInFlags& f, int64_t given, const Context& context) {
  const auto bytes = static_cast<int64_t>(f.size * (f.size <= 1 ? static_cast<double>(given) : 1e6));
  const auto plan = plan_within(result, bytes);
  if (!plan)
    throw Error(Code::kUsage, fmt::format("[analyze] --size {} found; these schemes make no file so small; give a "
                                          "larger one, or schemes of fewer bits",
                                          f.size));
  write_text(f.plan_out, plan_to_json(*plan) + "\n");
  context.env.log(LogLevel::kInfo, fmt::format("plan of {} layers written to {}: `seqto quantize MODEL --plan {}`",
                                               plan->schemes.size(), f.plan_out, f.plan_out));
}

}  // namespace

void add_one_in_flags(Command word, OneInFlags& f) {
  const Command one_in = word.under("One-in");
  one_in
      .add_option(
          "--one-in", f.schemes,
          "Instead: what the answers lose where one group of layers alone is in each of these schemes. Block by "
          "block: the weights are read once, so a model may be larger than the memory")
      .type_name("SCHEMES")
      .delimiter(',');
  one_in.add_option("--size", f.size, "The plan that loses least in a file of so many MB, or of such a share (0.3)")
      .check_not_negative();
  one_in.add_option("--plan-out", f.plan_out, "Where that plan is written").type_name("FILE");
  add_task_flags(word, f.metrics);
}

void one_in_command(const WordFlags& f, const OneInFlags& own, const Context& context) {
  OneInOptions options{.quantize = f.quantize.parsed(), .metrics = own.metrics};
  options.schemes.clear();
  for (const std::string& name : own.schemes) options.schemes.push_back(parse_detailed_scheme(name));
  if ((own.size > 0) == own.plan_out.empty())
    throw Error(Code::kUsage, "[analyze] one of --size and --plan-out found; both, or neither, expected");
  const char* other = !f.quantized.empty() ? "--quantized" : f.channels ? "--per-channel-detail" : "--state";
  if (!f.data.options.states.empty() || !f.quantized.empty() || f.channels)
    throw Error(Code::kUsage, fmt::format("[analyze] --one-in and {} found; one of them expected", other));
  const std::string file = model_file(f.model, f.hub, context);
  const Model model = load_for_quantizing(file, options.quantize, context.env, true);
  options.quantize.exclude = expand_patterns(f.exclude, model);
  options.quantize.include = expand_patterns(options.quantize.include, model);
  Workbench bench = open_workbench(f, model, "analyze", false, context);
  const bool needs_ranges = std::ranges::any_of(options.schemes, [](const auto& s) { return is_static(s.scheme); });
  const Ranges ranges = needs_ranges ? ranges_of(f, model, bench, context) : Ranges{};
  const OneIn result = one_in(model, ranges, options, {*bench.data, bench.samples, *bench.runner, context.env});
  context.env.log(
      LogLevel::kInfo,
      fmt::format("task: {}; {} blocks; weights read {:.2f} times; {:.1f} s, one forward pass {:.1f} s", result.task,
                  result.blocks, static_cast<double>(result.read_bytes) / static_cast<double>(result.model_bytes),
                  result.seconds, result.forward_seconds));
  if (context.json) print_json(nlohmann::ordered_json::parse(one_in_to_json(result)));
  else print_one_in(result);
  if (own.size > 0) write_plan_within(result, own, model_file_bytes(file, load_model(file)), context);
}

}  // namespace seqto::cli
