// seqto lint: what a target makes of a file, node by node.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hub_flags.h"
#include "print_json.h"
#include "seqto/error.h"
#include "seqto/target.h"
#include "terminal.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string model, target = "onnxruntime-cpu-x86", markdown;
  bool strict = false, all = false;
  HubOptions hub;
};

// Nodes that there is something to say of, those of one reason together.
std::vector<TableRow> rows_of(const Lint& found, bool all) {
  std::vector<TableRow> rows;
  std::map<std::string, size_t> places;
  std::vector<int64_t> counts;
  for (const LintedNode& n : found.nodes) {
    const bool tells = n.verdict == Verdict::kRefused || n.verdict == Verdict::kConversion ||
                       (n.verdict == Verdict::kFloat && (n.wasted || !n.reason.empty()));
    if (!all && !tells) continue;
    const std::string verdict = n.wasted ? "float, wasted" : std::string(to_string(n.verdict));
    const std::string key =
        all ? n.node
            : fmt::format("{}\n{}\n{}", n.op_type, verdict, n.wasted || n.verdict == Verdict::kRefused ? n.reason : "");
    const auto [at, is_new] = places.try_emplace(key, rows.size());
    if (is_new) {
      rows.push_back({n.node, n.op_type, verdict, n.reason});
      counts.push_back(1);
    } else if (++counts[at->second] > 1) {
      rows[at->second][0] = fmt::format("{} nodes", counts[at->second]);
      if (rows[at->second][3] != n.reason) rows[at->second][3] = "";
    }
  }
  return rows;
}

std::string sentence(const Lint& found) {
  return fmt::format(
      "{} ({}): {} nodes in integers, {} in float ({} of them quantized for nothing), {} conversions, {} refused",
      found.target, found.known, found.count(Verdict::kIntegers), found.count(Verdict::kFloat), found.wasted(),
      found.count(Verdict::kConversion), found.count(Verdict::kRefused));
}

std::string in_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string markdown(const Lint& found) {
  std::string text = sentence(found) + "\n\n| node | operator | verdict | rule |\n|---|---|---|---|\n";
  for (const TableRow& row : rows_of(found, false))
    text += fmt::format("| `{}` | {} | {} | {} |\n", in_cell(row[0]), in_cell(row[1]), row[2], in_cell(row[3]));
  return text;
}

void lint_command(const Flags& f, const Context& context) {
  const Target target = load_target(f.target);
  Model model = load_model(model_file(f.model, f.hub, context));
  name_nodes(model);
  const Lint found = lint(infer_shapes(model), target);
  if (!f.markdown.empty()) write_text(f.markdown, markdown(found));
  if (context.json) {
    print_json(nlohmann::ordered_json::parse(lint_to_json(found)));
  } else {
    const std::vector<TableRow> rows = rows_of(found, f.all);
    if (!rows.empty())
      for (const std::string& line : table_lines({{"node", TableColumn::kName},
                                                  {"operator", TableColumn::kName},
                                                  {"verdict", TableColumn::kName},
                                                  {"rule", TableColumn::kName}},
                                                 rows, stdout_style()))
        fmt::print("{}\n", line);
    fmt::print("{}{}\n", rows.empty() ? "" : "\n", sentence(found));
  }
  std::fflush(stdout);
  if (const int64_t refused = found.count(Verdict::kRefused); refused > 0)
    throw Error(Code::kGateNotMet,
                fmt::format("[lint] {} of {} nodes refused by {}", refused, found.nodes.size(), found.target));
  if (f.strict && found.wasted() > 0)
    throw Error(Code::kGateNotMet,
                fmt::format("[lint] {} layers quantized and computed in float by {}", found.wasted(), found.target));
}

}  // namespace

void add_lint(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word = app.add_subcommand("lint", "What a target computes in integers, in float, or refuses");
  add_config_flag(word);
  word.add_option("model", f->model, "ONNX file, of any tool, or hub:NAME").required();
  word.under("Target")
      .add_option("--target", f->target, "A table of docs/reference/targets.md, or a file like them")
      .type_name("NAME|FILE.toml")
      .capture_default_str();
  word.under("Target").add_flag("--strict", f->strict,
                                "Exit code 5 also for layers that are quantized and computed in float");
  word.under("Output").add_flag("--all", f->all, "Every node");
  word.under("Output").add_option("--markdown", f->markdown, "Also as Markdown").type_name("FILE");
  add_hub_flags(word, f->hub);
  add_print_config_flag(word);
  word.callback([=, &context] { lint_command(*f, context); });
}

}  // namespace seqto::cli
