#include "seqto/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <new>
#include <optional>
#include <set>

#include "base/files.h"
#include "data/datasets.h"
#include "model/branches.h"
#include "model/pair.h"
#include "orchestrator/hub/hub_manifest.h"
#include "seqto/error.h"
#include "seqto/prepare.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using internal::kHubPrefix;

bool is_glob(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

// As the name of a folder.
std::string folder_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-._@").find(c) == std::string_view::npos)
      c = '_';
  return text.starts_with('.') ? "_" + text : text;
}

std::vector<ModelSource> in_folder(const fs::path& folder, const Env& env) {
  std::vector<ModelSource> models;
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".onnx") continue;
    if (name.find("_quant") != std::string::npos) left.insert(std::move(name));
    else models.push_back({folder_name(entry.path().stem().string()), entry.path().string(), {}});
  }
  const std::string why = "taken for quantized, as _quant is in their names; rename them, or name each alone";
  if (!left.empty())
    env.log(LogLevel::kWarning, fmt::format("files that are not tuned: {}: {}", fmt::join(left, ", "), why));
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.location < b.location; });
  if (models.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[tune] {} holds no .onnx file{}; one or more were expected; check the path",
                            folder.string(), left.empty() ? "" : " but those with _quant in their names"));
  return models;
}

int64_t opset_of(const std::string& glob, size_t begin) {
  int64_t opset = 0;
  const char* const last = glob.data() + glob.size();
  const auto [end, error] = std::from_chars(glob.data() + begin, last, opset);
  if (error != std::errc() || end != last || opset < 1)
    throw Error(Code::kUsage, fmt::format("[tune] {}{} found; the number of an opset expected behind @, as in {}{}@12; "
                                          "see `seqto hub list`",
                                          kHubPrefix, glob, kHubPrefix, glob.substr(0, begin - 1)));
  return opset;
}

std::vector<ModelSource> in_hub(const std::string& glob, const TuneAllOptions& options, const Env& env) {
  const size_t at = glob.rfind('@');
  HubFilter filter{.name = glob.substr(0, at)};
  if (at != std::string::npos) filter.opset = opset_of(glob, at + 1);
  std::vector<ModelSource> models;
  for (const HubModel& m : filter_hub(list_hub(options.hub, env), filter)) {
    if (m.index < options.hub_first || (options.hub_last >= 0 && m.index > options.hub_last)) continue;
    std::string name = fmt::format("{}@{}", m.name, m.opset);
    models.push_back({folder_name(name), std::string(kHubPrefix) + name, {}});
  }
  if (models.empty())
    throw Error(
        Code::kInvalidInput,
        fmt::format("[tune] {}{} finds no model; one or more were expected; see `seqto hub list`", kHubPrefix, glob));
  return models;
}

void make_names_differ(std::vector<ModelSource>& models) {
  std::set<std::string> taken;
  for (ModelSource& m : models) {
    std::string name = m.name;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", m.name, i);
    m.name = name;
  }
}

// Those of the model, not of an earlier study's in the folder.
void take_files_beside(const fs::path& model, const TuneOptions& o) {
  for (const char* name : internal::kFilesBeside) {
    const fs::path from = internal::file_beside(model, name), to = o.output / name;
    std::error_code none;
    const bool own = !from.empty() && fs::equivalent(from, to, none);
    if (!o.resume && !own && fs::exists(StudyFolder{o.output}.study())) fs::remove(to);
  }
  internal::copy_files_beside(model, o.output);
}

void take_prepared(TuneOptions& o, const Env& env) {
  o.dataset = with_files_beside(o.model, o.data, o.dataset, env);
  RunnerOptions here = o.runner;
  here.isolated = false;
  Prepared made = preprocess(load_model(o.model), make_runner("cpu", here, env).get());
  for (const auto& action : made.actions) env.log(LogLevel::kDebug, action);
  make_writable_folder(o.output);
  take_files_beside(o.model, o);
  o.model = StudyFolder{o.output}.prepared();
  save_model(made.model, o.model);
}

// What tells how a decoder writes lies beside it, or above its folder onnx.
std::optional<internal::Writing> writing_of(const fs::path& decoder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const fs::path file = internal::file_beside(decoder, name);
    if (file.empty()) continue;
    if (auto writing = internal::parse_writing(read_file(file), file.string())) return writing;
  }
  return {};
}

// The selected model's files lie in one folder. An encoder and a decoder of one name get two there.
void require_names_differ(const fs::path& encoder, const fs::path& decoder, std::span<const fs::path> cached) {
  std::set<fs::path> taken{encoder.filename()};
  if (std::ranges::count(cached, decoder) == 0) taken.insert(decoder.filename());
  for (const fs::path& file : cached)
    if (!taken.insert(file.filename()).second)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[tune] {} found, and another file of that name; files with a cache of names of their own "
                      "expected, as models/selected holds all of them; rename it",
                      file.string()));
}

void exclude_present(TuneOptions& o, const std::vector<std::string>& names, const Env& env) {
  if (names.empty()) return;
  std::set<std::string> nodes;
  for (const Node& node : quantizable_form(load_model(o.model), o.quantize).model.graph.nodes) nodes.insert(node.name);
  for (const auto& name : names) {
    if (nodes.contains(name)) o.exclude.push_back(name);
    else
      env.log(LogLevel::kWarning,
              fmt::format("{}: no node is called '{}'; it excludes nothing", o.model.string(), name));
  }
}

// Of what a library threw: no word of ours is in front of it.
std::string words_of(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error)) return std::string(kNoMemory);
  return fmt::format("[tune] {}", error.what());
}

}  // namespace

void take_pair(TuneOptions& o, const fs::path& encoder, std::span<const fs::path> decoders, const Env& env) {
  o.dataset = with_files_beside(encoder, o.data, o.dataset, env);
  const fs::path& decoder = decoders.front();
  const Model first = load_model(encoder);
  Model second = load_model(decoder);
  o.cached_decoders.assign(decoders.begin() + 1, decoders.end());
  if (auto branches = internal::branches_of(second)) {
    o.cached_decoders.insert(o.cached_decoders.begin(), decoder);
    second = internal::reads_a_past(branches->else_branch) ? std::move(branches->then_branch)
                                                           : std::move(branches->else_branch);
  }
  require_names_differ(encoder, decoder, o.cached_decoders);
  const Model pair =
      internal::join({first, encoder.stem().string()}, {second, decoder.stem().string()}, writing_of(decoder));
  make_writable_folder(o.output);
  take_files_beside(encoder, o);
  o.model = StudyFolder{o.output}.pair();
  save_model(pair, o.model);
}

bool names_several(const std::string& asked) {
  return names_hub_model(asked) ? is_glob(asked) : fs::is_directory(asked);
}

std::vector<ModelSource> find_models(const std::string& asked, const TuneAllOptions& options, const Env& env) {
  if (!names_several(asked)) return {{"", asked, {}}};
  auto models = names_hub_model(asked) ? in_hub(asked.substr(kHubPrefix.size()), options, env) : in_folder(asked, env);
  make_names_differ(models);
  return models;
}

TuneOptions options_for(const ModelSource& source, const TuneAllOptions& options, const Env& env) {
  TuneOptions o = options.tune;
  if (!source.name.empty()) o.output = o.output / source.name;
  o.model = fetch_model(source.location, false, options.hub, env).model;
  if (!source.decoders.empty()) {
    if (options.prepare_models)
      throw Error(Code::kUsage,
                  "[tune] --prepare-models with an encoder and a decoder found; `seqto prepare` of each "
                  "before expected");
    take_pair(o, fs::path(o.model), source.decoders, env);
  }
  if (options.prepare_models) take_prepared(o, env);
  exclude_present(o, options.exclude_if_present, env);
  return o;
}

Summary tune_one(const ModelSource& source, const TuneAllOptions& options, const Env& env) {
  return tune(options_for(source, options, env), env);
}

std::vector<OverviewEntry> tune_all(const std::vector<ModelSource>& models, const TuneAllOptions& options,
                                    const Env& env) {
  std::vector<OverviewEntry> entries;
  std::exception_ptr first;
  for (const ModelSource& model : models) {
    OverviewEntry entry{.name = model.name};
    env.log(LogLevel::kInfo, fmt::format("{} ({} of {})", model.name, entries.size() + 1, models.size()));
    // A model is to this run what a candidate is to a study: that it fails is a result.
    try {
      entry.summary = tune_one(model, options, env);
    } catch (const std::exception& error) {
      const auto* own = dynamic_cast<const Error*>(&error);
      if (own && own->code() == Code::kInterrupted) throw;
      entry.failure = words_of(error);
      if (!first) first = std::current_exception();
      env.log(LogLevel::kError, fmt::format("{}: {}", model.name, entry.failure));
    }
    entries.push_back(std::move(entry));
    write_overview(entries, options.tune.output);
  }
  if (first && std::none_of(entries.begin(), entries.end(), [](const auto& e) { return e.summary.has_value(); }))
    std::rethrow_exception(first);
  return entries;
}

}  // namespace seqto
