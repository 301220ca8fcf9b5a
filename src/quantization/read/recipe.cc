// Recipes as files: the plan's JSON, and beside it what was learned from data, each file named by its contents.
#include "seqto/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "quantization/calibration/ranges.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kRecipe = "recipe";

json to_json(const StoredFile& file) { return {{"file", file.path.filename().string()}, {"sha256", file.sha256}}; }

std::vector<int64_t> first_samples(int64_t count) {
  constexpr int64_t kMost = 1 << 24;  // more than anybody calibrates on
  std::vector<int64_t> samples(static_cast<size_t>(std::clamp<int64_t>(count, 0, kMost)));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

// Files lie beside the plan: a name that leads elsewhere is refused.
StoredFile stored_file(const json& entry, const fs::path& plan_file) {
  const fs::path name = entry.at("file").get<std::string>();
  StoredFile file{plan_file.parent_path() / name, entry.at("sha256").get<std::string>()};
  if (name != name.filename() || name.empty() || name == "..")
    throw Error(Code::kInvalidInput,
                fmt::format("[plan] {}: file '{}' found; the name of a file beside the plan was expected",
                            plan_file.string(), name.string()));
  if (!fs::is_regular_file(file.path))
    throw Error(Code::kInvalidInput,
                fmt::format("[plan] {} names {}, which is not beside it; copy that file too, or leave the plan's entry "
                            "\"{}\" out: then give the options as flags",
                            plan_file.string(), name.string(), kRecipe));
  if (const std::string found = sha256_file(file.path); found != file.sha256)
    throw Error(Code::kInvalidInput,
                fmt::format("[plan] {} with SHA-256 {:.12}... found; {} was written with {:.12}...; copy the file that "
                            "belongs to it",
                            file.path.string(), found, plan_file.string(), file.sha256));
  return file;
}

// A number stands for so many from the first.
json samples_to_json(const std::vector<int64_t>& samples) {
  if (samples == first_samples(std::ssize(samples))) return samples.size();
  return samples;
}
std::vector<int64_t> samples_from_json(const json& j) {
  return j.is_number() ? first_samples(j.get<int64_t>()) : j.get<std::vector<int64_t>>();
}

json to_json(const Recipe& r) {
  json j{{"quantize", internal::parse_json(quantize_options_to_json(r.quantize))},
         {"opsets", r.opsets},
         {"fold_batch_norms", r.fold_batch_norms},
         {"improvers", internal::parse_json(improve_options_to_json(r.improvers))},
         {"rewritten_for", to_string(r.rewritten_for.value_or(Scheme::kInt8))},
         {"calibration", internal::parse_json(calibrate_options_to_json(r.calibrate))},
         {"calibration_samples", samples_to_json(r.calibration_samples)},
         {"model_sha256", r.model_sha256},
         {"samples_sha256", r.samples_sha256},
         {"ranges", json::object()},
         {"corrections", json::array()}};
  if (r.sample_order != SampleOrder::kGiven) j["sample_order"] = to_string(r.sample_order);
  for (const auto& [method, file] : r.ranges) j["ranges"][method] = to_json(file);
  for (const StoredFile& file : r.corrections) j["corrections"].push_back(to_json(file));
  if (r.rewritten) j["rewritten"] = to_json(*r.rewritten);
  return j;
}

Recipe from_json(const json& j, const fs::path& plan_file) {
  Recipe r;
  r.quantize = quantize_options_from_json(j.at("quantize").dump());
  r.opsets = j.at("opsets").get<std::vector<int64_t>>();
  r.fold_batch_norms = j.at("fold_batch_norms").get<bool>();
  r.improvers = improve_options_from_json(j.at("improvers").dump());
  r.rewritten_for = parse_scheme(j.at("rewritten_for").get_ref<const std::string&>());
  r.calibrate = calibrate_options_from_json(j.at("calibration").dump());
  take_quantize_options(r.calibrate, r.quantize, true);
  r.calibration_samples = samples_from_json(j.at("calibration_samples"));
  r.sample_order = parse_sample_order(j.value("sample_order", std::string(to_string(SampleOrder::kGiven))));
  r.model_sha256 = j.at("model_sha256").get<std::string>();
  r.samples_sha256 = j.at("samples_sha256").get<std::string>();
  for (const auto& [method, entry] : j.at("ranges").items()) r.ranges[method] = stored_file(entry, plan_file);
  for (const json& entry : j.at("corrections")) r.corrections.push_back(stored_file(entry, plan_file));
  if (j.contains("rewritten")) r.rewritten = stored_file(j["rewritten"], plan_file);
  return r;
}

bool holds_recipe(const json& file) { return file.is_object() && file.contains(kRecipe); }

void copy_beside(const StoredFile& file, const fs::path& folder) {
  const fs::path target = folder / file.path.filename();
  if (!fs::exists(target)) write_file_atomic(target, read_file(file.path));
}

}  // namespace

StoredFile store(const fs::path& folder, std::string_view kind, std::string_view extension, std::string_view content) {
  StoredFile file{{}, sha256_hex(content)};
  file.path = folder / fmt::format("{}-{:.16}{}", kind, file.sha256, extension);
  if (!fs::exists(file.path)) write_file_atomic(file.path, content);
  return file;
}

StoredFile store_ranges(const fs::path& folder, const Ranges& ranges) {
  Ranges bounds;
  for (const auto& [tensor, range] : ranges) bounds[tensor] = {range.lowest, range.highest, range.avg, range.std, {}};
  return store(folder, "ranges", ".json", internal::tensors_data(bounds, CalibrationMethod::kMinMax).dump());
}

void take_recommended(QuantizeOptions& options, const NamedOptions& named, bool any_16_bits) {
  if (options.compat_onnxruntime) return;
  if (!named.headroom_16_bits && any_16_bits) options.headroom_16_bits = kRecommendedHeadroom16Bits;
  if (!named.unify_concat) options.unify_concat = true;
  if (!named.float_unlike_concat) options.float_unlike_concat = true;
}

void save_recipe(const Recipe& recipe, const fs::path& plan_file) {
  for (const auto& [method, file] : recipe.ranges) copy_beside(file, plan_file.parent_path());
  for (const StoredFile& file : recipe.corrections) copy_beside(file, plan_file.parent_path());
  if (recipe.rewritten) copy_beside(*recipe.rewritten, plan_file.parent_path());
  json plan = internal::parse_json(plan_to_json(recipe.plan));
  plan[kRecipe] = to_json(recipe);
  write_file_atomic(plan_file, plan.dump(1));
}

bool has_recipe(const fs::path& plan_file) { return holds_recipe(internal::parse_json_if_any(read_file(plan_file))); }

std::optional<Recipe> load_recipe(const fs::path& plan_file) {
  const std::string text = read_file(plan_file);
  const json file = internal::parse_json_if_any(text);
  if (!holds_recipe(file)) return {};
  try {
    Recipe recipe = from_json(file.at(kRecipe), plan_file);
    recipe.plan = plan_from_json(text);
    return recipe;
  } catch (const json::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format(
            "[plan] {}: \"{}\": {}; an entry as `seqto tune` writes it was expected (docs/reference/formats.md)",
            plan_file.string(), kRecipe, error.what()));
  }
}

std::string model_sha256(const fs::path& file, const Model& model) {
  std::string hash = sha256_file(file);
  for (const auto& weights : model.external_files) hash = sha256_hex(hash + sha256_file(weights));
  return hash;
}

std::string samples_sha256(const Dataset& data, std::span<const int64_t> samples) {
  std::string all;
  for (int64_t index : samples)
    for (const Tensor& input : data.read(index).inputs) all += xxh3_hex(input.bytes());
  return sha256_hex(all);
}

}  // namespace seqto
