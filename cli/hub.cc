// seqto hub: the ONNX Model Hub's list, its files and what the cache holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "hub_flags.h"
#include "print_json.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

using json = nlohmann::ordered_json;

struct Flags {
  HubOptions options;
  HubFilter filter;
  std::vector<std::string> names;
  std::string output;
  bool test_data = false;
};

json ports_json(const std::vector<HubPort>& ports) {
  json list = json::array();
  for (const HubPort& p : ports) list.push_back({{"name", p.name}, {"type", p.type}, {"shape", p.shape}});
  return list;
}

json model_json(const HubModel& m) {
  return {{"index", m.index},
          {"model", m.name},
          {"opset", m.opset},
          {"path", m.file.path},
          {"size_bytes", m.file.size_bytes},
          {"sha256", m.file.sha256},
          {"tags", m.tags},
          {"inputs", ports_json(m.inputs)},
          {"outputs", ports_json(m.outputs)},
          {"test_data", m.archive.has_value()}};
}

void list_command(const Flags& f, const Context& context) {
  auto models = filter_hub(list_hub(f.options, context.env), f.filter);
  if (context.json) {
    json list = json::array();
    for (const HubModel& m : models) list.push_back(model_json(m));
    print_json(list);
    return;
  }
  std::vector<TableRow> rows;
  for (const HubModel& m : models) {
    std::vector<std::string> inputs;
    for (const HubPort& p : m.inputs) inputs.push_back(fmt::format("{} {}", p.name, fmt::join(p.shape, "x")));
    rows.push_back({fmt::to_string(m.index), fmt::format("{}@{}", m.name, m.opset),
                    m.file.size_bytes > 0 ? format_bytes(m.file.size_bytes) : "?",
                    fmt::format("{}", fmt::join(inputs, ", "))});
  }
  const std::vector<TableColumn> columns{
      {"", TableColumn::kFigure, 1}, {"model", TableColumn::kName}, {"size", TableColumn::kFigure}, {"inputs"}};
  for (const auto& line : table_lines(columns, std::move(rows), stdout_style())) fmt::print("{}\n", line);
  fmt::print("\n");
  fmt::print("{} {}\n", models.size(), models.size() == 1 ? "model" : "models");
}

void copy_to(const std::filesystem::path& from, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (!error) fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  if (error)
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {}: {}; a folder that can be written was expected; choose another", to.string(),
                            error.message()));
}

void fetch_command(const Flags& f, const Context& context) {
  auto models = list_hub(f.options, context.env);
  json list = json::array();
  for (const auto& name : f.names) {
    HubModel found = find_hub_model(models, name);
    HubFiles files = fetch_hub(found, f.test_data, f.options, context.env);
    if (!f.output.empty()) {
      const std::filesystem::path name = std::filesystem::path(found.file.path).filename();
      std::filesystem::path model = std::filesystem::path(f.output) / name;
      // Folders of test data have the same names for every model.
      if (!files.test_data.empty()) model = std::filesystem::path(f.output) / name.stem() / name;
      copy_to(files.model, model);
      files.model = model;
      for (auto& folder : files.test_data) {
        auto beside = model.parent_path() / folder.filename();
        copy_to(folder, beside);
        folder = beside;
      }
    }
    json entry = model_json(found);
    entry["file"] = files.model.string();
    entry["test_data"] = json::array();
    for (const auto& folder : files.test_data) entry["test_data"].push_back(folder.string());
    list.push_back(entry);
    if (context.json) continue;
    fmt::print("{}\n", files.model.string());
    for (const auto& folder : files.test_data) fmt::print("{}\n", folder.string());
  }
  if (context.json) print_json(list);
}

void verify_command(const Flags& f, const Context& context) {
  json list = json::array();
  size_t damaged = 0, count = 0;
  for (const HubCheck& check : verify_hub(f.options, context.env)) {
    ++count;
    if (!check.good) ++damaged;
    list.push_back({{"file", check.file.string()}, {"good", check.good}, {"sha256", check.found}});
    if (!context.json) fmt::print("{}  {}\n", check.good ? "good   " : "DAMAGED", check.file.string());
  }
  if (context.json) print_json(list);
  else fmt::print("{} {}, {} damaged\n", count, count == 1 ? "file" : "files", damaged);
  if (damaged > 0)
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {} of {} files in the cache are damaged; equal hashes were expected; "
                            "`seqto hub fetch` gets them anew",
                            damaged, count));
}

}  // namespace

void add_hub(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word = app.add_subcommand("hub", "The ONNX Model Hub: its list, its models, the cache");
  word.require_subcommand();
  const Command list = word.add_subcommand("list", "What the hub has");
  list.add_option("name", f->filter.name, "Part of the name, or a glob");
  list.add_option("--opset", f->filter.opset, "Of this opset only");
  list.add_option("--tag", f->filter.tags, "With this tag; with several, any of them").delimiter(',').type_name("TAG");
  add_hub_flags(list, f->options);
  list.callback([=, &context] { list_command(*f, context); });

  const Command fetch = word.add_subcommand("fetch", "Models into the cache, verified; prints where they are");
  fetch.add_option("name", f->names, "NAME or NAME@OPSET; without, the largest opset").required();
  fetch.add_flag("--test-data", f->test_data, "Its test_data_set folders too");
  fetch.add_option("-o,--output", f->output, "Folder for copies of them");
  add_hub_flags(fetch, f->options);
  fetch.callback([=, &context] { fetch_command(*f, context); });

  const Command verify = word.add_subcommand("verify", "Hash every file of the cache again");
  add_hub_flags(verify, f->options);
  verify.callback([=, &context] { verify_command(*f, context); });
}

}  // namespace seqto::cli
