// Room: quantization. Recipe: a plan and everything else that its file was made with.
//
// A plan says which layer gets which scheme. The same plan gives another file under other options, ranges or roundings;
// a recipe holds those too, so that quantize_model() writes the same bytes again. `tune` writes one for every plan of
// its front; docs/reference/formats.md has the JSON.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/improve.h"
#include "seqto/target.h"

namespace seqto {

// A file beside the plan. It is named by its contents, so that several plans can share it.
struct StoredFile {
  std::filesystem::path path;
  std::string sha256;
  bool operator==(const StoredFile&) const = default;
};

struct Recipe {
  Plan plan;  // layers that corrections were found for have learned_rounding and bias_correction set
  // In place of the plan: everything that onnxruntime quantizes, in this scheme (kInt8 or kInt8Dynamic).
  std::optional<Scheme> everywhere;
  QuantizeOptions quantize;
  // The float model as it is quantized: its opset after each step of its preparation, and whether BatchNormalization
  // was folded. ONNX's converter gives other names in one step than in two.
  std::vector<int64_t> opsets;
  bool fold_batch_norms = true;
  // Before calibration the float model is rewritten with center, equalize and smooth: everywhere, for layers of
  // `rewritten_for`. Where that is unset, for the layers of the plan whose fields or `improvers` say so. The other
  // improvers find corrections anew.
  ImproveOptions improvers;
  std::optional<Scheme> rewritten_for = Scheme::kInt8;
  CalibrateOptions calibrate;
  std::vector<int64_t> calibration_samples;        // of the data; those that it has not are left out
  SampleOrder sample_order = SampleOrder::kGiven;  // that DatasetOptions::samples were taken in
  // The float model after that, an ONNX file, where a study keeps it: the study's plans then need no data. Unset: it is
  // rewritten again.
  std::optional<StoredFile> rewritten;
  // What ranges and corrections were found on: model_sha256() and samples_sha256(). Empty: nothing was found yet.
  std::string model_sha256, samples_sha256;
  std::map<std::string, StoredFile> ranges;  // by LayerOptions::method; "": those of layers without one
  std::vector<StoredFile> corrections;       // of save_corrections(), applied in this order
};

// --- What a recipe has where nobody named it

// Who names one of the types gets them as named. Who names a type or a form gets onnxruntime's model under these, bit
// for bit, and not an improved one in types that are fast here. Fields of QuantizeOptions; flags have dashes.
inline constexpr std::array kTypeFields{"activation_type", "weight_type", "per_channel", "reduce_range",
                                        "symmetric_activations"};
inline constexpr std::array kFormFields{"symmetric_weights", "restricted_asymmetric_activations",
                                        "tensor_overrides",  "format",
                                        "block_size",        "add_qdq_pair_to_weight"};
// Whether a type or a form is named, by `is_named` of a field. In the mode "dynamic" per_channel is none: products have
// scales for each channel, and convolutions, whose ConvInteger has not, get none of it.
bool names_types(const std::string& mode, const std::function<bool(const char*)>& is_named);
// Whether a model of this mode is improved unasked where data are given. The modes "dynamic" and "weights" need none
// for anything else; in "static" types that are named ask for onnxruntime's codes.
bool improves_on_data(const std::string& mode, bool types_named);
// What the caller named; it stays.
struct NamedOptions {
  bool headroom_16_bits = false, unify_concat = false, float_unlike_concat = false;
};
// What goes with recommended improvers; nothing with compat_onnxruntime. `any_16_bits`: activations may have them.
void take_recommended(QuantizeOptions& options, const NamedOptions& named, bool any_16_bits = true);

// --- What it quantizes

// What the mode "static", "dynamic", "weights" (`stored`) or "float16" asks of a layer. Throws Error{kUsage} for
// another.
Scheme scheme_of(const std::string& mode, Scheme stored);
// All layers alike, in the scheme of the mode. `best`: nobody named types or forms.
// Convolutions of "dynamic" then get int8_weights, unless op types or layers are named. Returns what was not done, a
// sentence each. Throws Error{kUsage} for another mode, Error{kInvalidInput} where nothing can be quantized.
std::vector<std::string> take_mode(Recipe& recipe, const Model& model, const std::string& mode, Scheme stored,
                                   bool best);
// The layers of a plan. The model gets what their fields need. Returns which names are no layer of the model, a
// sentence. Throws Error{kInvalidInput} where none is one: the plan is of another model.
std::vector<std::string> take_plan(Recipe& recipe, Plan plan, Model& model);

// What of it takes samples, by what comes first; ranges that are given serve for kRanges.
enum class SamplesFor { kNothing, kImprovers, kPlannedRewriting, kPlannedCorrections, kPlannedMethods, kRanges };
SamplesFor samples_for(const Recipe& recipe);

// --- What of it layers read

// A setting that layers of some schemes alone read. Who names it for others is told so: it would do nothing.
struct SchemeSetting {
  const char* field = nullptr;  // as Python names it; null: part of another
  const char* flag = nullptr;   // null: the command has none
  bool (*read_by)(Scheme, QuantFormat) = nullptr;
};
std::span<const SchemeSetting> scheme_settings();
// What an error says behind the name of a setting that no layer of the recipe reads, and which mode does. Empty where
// one reads it, and where all layers stay float.
std::string why_idle(const Recipe& recipe, const std::function<bool(Scheme, QuantFormat)>& read_by);
// Whether any layer is smoothed: ImproveOptions::smooth_alpha is read then.
bool smooths(const Recipe& recipe);

// --- As a file

// Copies the stored files beside the plan, unless they are there, and writes the plan with its recipe.
void save_recipe(const Recipe& recipe, const std::filesystem::path& plan_file);
bool has_recipe(const std::filesystem::path& plan_file);
// Nothing where the plan has no recipe. Throws Error{kInvalidInput}: no plan; a stored file that is missing or differs
// from what the plan was written with.
std::optional<Recipe> load_recipe(const std::filesystem::path& plan_file);
// Writes <folder>/<kind>-<hash><extension>, unless it is there.
StoredFile store(const std::filesystem::path& folder, std::string_view kind, std::string_view extension,
                 std::string_view content);
StoredFile store_ranges(const std::filesystem::path& folder, const Ranges& ranges);

// Of the model's file and of the files that its weights lie in.
std::string model_sha256(const std::filesystem::path& file, const Model& model);
// Of the values of these samples, preprocessed as the model reads them.
std::string samples_sha256(const Dataset& data, std::span<const int64_t> samples);

// The float model as the recipe's plan means it: the second argument of what follows.
Model recipe_form(const Model& model, const Recipe& recipe);

// What a recipe is made on anew.
struct RecipeData {
  const Dataset& data;
  Runner& runner;
  std::optional<Ranges> ranges;  // given: nothing is calibrated but what layers have a method for
};
// Whether it changes the float model, which takes data.
bool rewrites(const Recipe& recipe);

struct Quantized {
  Model model;
  Model given;              // the float model as it came
  Model float_model;        // rewritten
  QuantizeOptions options;  // with the layers that smoothing added among `exclude`
  bool found_anew = false;  // ranges and corrections come from the data, not from the recipe's files
  // Of `given`: what its exporter noted of nodes and tensors, and `model` has not; 0: next to nothing.
  int64_t export_note_bytes = 0;
  bool refused = false;                        // by the device that was asked; a note says why
  std::vector<std::string> deviations, notes;  // as Quantizer tells them
  std::map<LayerId, std::vector<std::string>> layer_deviations;
  std::shared_ptr<const internal::Encoding> encoding;  // everything that was decided
};
std::string encoding_to_json(const Quantized& made);  // docs/reference/formats.md, "Encoding"
// The model under the recipe. `sha256` is model_sha256() of the file that `model`, in recipe_form(), came from. For the
// recipe's own model, and its own samples where data are given, the recipe's files hold all that was learned. For
// another model or other samples it is learned anew, on the `calibration_samples` that the data have. Throws
// Error{kUsage} where data are needed and not given: for another model where samples_for() says so, or to rewrite the
// model anew. Layers that `refusal`, where there is one, does not take on codes stay float, and a note says so.
Quantized quantize_model(const Model& model, const std::string& sha256, const Recipe& recipe,
                         const std::optional<RecipeData>& data = {}, const Env& env = {}, const Refusal& refusal = {});

}  // namespace seqto
