// quantize, calibrate, analyze, preprocess and Quantizer.
#include <algorithm>
#include <mutex>

#include "call.h"
#include "data.h"
#include "module.h"
#include "seqto/explain.h"
#include "seqto/prepare.h"
#include "seqto/recipe.h"
#include "seqto/runner.h"
#include "seqto/target.h"
#include "seqto/verify.h"

namespace seqto::python {
namespace {

// --- quantize: what the command does, by keywords

struct Asked {
  std::string mode = "static";
  int64_t weight_bits = 8;
  std::optional<bool> improve;
  bool names_types = false;
  nb::object plan = nb::none(), ranges = nb::none();
  std::optional<Target> target;

  Scheme stored() const { return weight_bits == 8 ? Scheme::kInt8Weights : Scheme::kInt4Weights; }
};

// kTypeFields says whose model is folded, improved and in fast types.
bool names_types(const Keywords& k, const std::string& mode) {
  return seqto::names_types(mode, [&](const char* field) { return k.given(field); }) || k.given("compat_onnxruntime");
}

bool takes_fast(const Keywords& k, const Asked& asked) {
  return asked.mode == "static" && asked.plan.is_none() && !names_types(k, asked.mode);
}

bool names_improvers(const Keywords& k) {
  return k.given("learned_rounding") ||
         std::ranges::any_of(improvers(), [&](const Improver& improver) { return k.given(improver.name); });
}

std::vector<const char*> named_types(const Keywords& k) {
  std::vector<const char*> named;
  std::ranges::copy_if(kTypeFields, std::back_inserter(named), [&](const char* field) { return k.given(field); });
  return named;
}

Plan plan_of(nb::handle given) {
  if (nb::isinstance<Plan>(given)) return nb::cast<Plan>(given);
  const bool named = is_path(given);
  if (!named && !nb::hasattr(given, "items"))
    throw nb::type_error((nb::cast<std::string>(nb::repr(given)) +
                          " found; a seqto.Plan, the path of one, or a dict of "
                          "layers and schemes expected")
                             .c_str());
  return nb::cast<Plan>(named ? nb::type<Plan>().attr("load")(given) : nb::type<Plan>()(given));
}

Ranges ranges_of(nb::handle given) {
  if (is_path(given)) return load_ranges(path_of(given));
  if (!nb::isinstance<Ranges>(given))
    throw nb::type_error(
        (nb::cast<std::string>(nb::repr(given)) + " found; seqto.Ranges or the path of a calibration cache expected")
            .c_str());
  return nb::cast<Ranges>(given);
}

struct QuantizeCall {
  Asked asked;
  Workbench bench;
  Recipe recipe;
  Model model;
  std::unique_ptr<Dataset> data;
  std::optional<Ranges> ranges;
  std::vector<std::string> notes;
};

void choose_improvers(QuantizeCall& call, const Keywords& k, bool best) {
  QuantizeOptions& options = call.recipe.quantize;
  const bool unasked = best && !call.asked.improve && call.data && !call.data->is_random() && !call.ranges;
  if (!unasked && !call.asked.improve.value_or(false)) return;
  const Scheme scheme = call.asked.mode == "weights" ? call.asked.stored() : Scheme::kInt8;
  call.recipe.improvers =
      joined(call.recipe.improvers, unasked ? default_improvers(scheme, options.activation_type)
                                            : recommended_improvers(scheme, options.activation_type));
  take_recommended(options, named_options(k));
}

// Which layers get what: those of a plan, or all of them by the mode.
void choose_layers(QuantizeCall& call) {
  const Asked& asked = call.asked;
  if (!asked.plan.is_none()) call.notes = take_plan(call.recipe, plan_of(asked.plan), call.model);
  else call.notes = take_mode(call.recipe, call.model, asked.mode, asked.stored(), !asked.names_types);
}

// Whether the target takes what all layers get; a plan's are checked when they are written.
void require_mode(const Asked& asked) {
  if (!asked.target || !asked.plan.is_none()) return;
  DetailedScheme scheme(scheme_of(asked.mode, asked.stored()));
  if (scheme.scheme == Scheme::kInt4Weights) scheme.fields.bits = static_cast<int>(asked.weight_bits);
  require_scheme(*asked.target, scheme, "mode='" + asked.mode + "'");
}

// What was named has some layer to work on.
void refuse_idle(const QuantizeCall& call, const ImproveOptions& named, const Keywords& k) {
  const auto require = [&](const char* name, const auto& read_by) {
    if (const std::string why = why_idle(call.recipe, read_by); !why.empty())
      throw Error(Code::kUsage, std::string("[quantize] ") + name + " " + why);
  };
  for (const Improver& i : improvers())
    if (i.asked(named)) require(i.name, [&](Scheme scheme, QuantFormat) { return i.serves(scheme); });
  for (const SchemeSetting& s : scheme_settings()) {
    if (!s.field || !k.asks(s.field)) continue;
    const bool says_what_is = s.field == std::string_view("weight_bits") && call.asked.weight_bits == 8;
    if (!says_what_is) require(s.field, s.read_by);
  }
  if (k.given("smooth_alpha") && !smooths(call.recipe))
    throw Error(Code::kUsage, "[quantize] smooth_alpha without smooth found, where it does nothing; both expected");
}

QuantizeCall read_call(nb::handle model, nb::handle data, Keywords& k) {
  QuantizeCall call;
  Asked& asked = call.asked;
  asked.mode = k.pop("mode", asked.mode);
  asked.weight_bits = k.pop("weight_bits", asked.weight_bits);
  if (asked.weight_bits != 8 && asked.weight_bits != 4 && asked.weight_bits != 2)
    throw Error(Code::kUsage,
                "[quantize] weight_bits=" + std::to_string(asked.weight_bits) + " found; 8, 4 or 2 expected");
  asked.improve = k.pop("improve", asked.improve);
  if (const auto name = k.pop("target", std::optional<std::string>{})) asked.target = load_target(*name);
  asked.plan = k.pop_object("plan");
  asked.ranges = k.pop_object("ranges");
  QuantizeOptions& options = call.recipe.quantize;
  asked.names_types = names_types(k, asked.mode);
  const bool fast = takes_fast(k, asked);
  const bool best = asked.plan.is_none() && improves_on_data(asked.mode, asked.names_types) &&
                    !k.given("compat_onnxruntime") && !names_improvers(k);
  k.set(options);
  k.set(call.recipe.calibrate);
  k.set(call.recipe.improvers);
  const ImproveOptions named = call.recipe.improvers;
  call.bench.take(k);
  k.refuse_others();
  require_mode(asked);
  if (!call.bench.device.load) require_device(call.bench.device.name);
  const std::optional<Target>& target = asked.target;
  if (target && asked.mode == "static") take_target_types(options, *target, named_types(k));
  else if (fast) take_fast_types(options, call.bench.device.name);
  else if (const bool planned = !asked.plan.is_none();
           (asked.mode != "static" || planned) && !options.compat_onnxruntime && !k.given("sums_for_adds")) {
    if (target) take_target_forms(options, *target);
    else take_fast_forms(options, call.bench.device.name);
  }
  if (!asked.ranges.is_none()) options.widen_float16 = false;  // they name the tensors of the model as it came
  if (asked.weight_bits == 2) options.weight_only.bits = 2;
  take_quantize_options(call.recipe.calibrate, options, k.given("method"));
  const Model given = model_of(model);
  refuse_trees(given);
  // Overrides name layers, tensors and scales of the model as it came.
  const bool as_it_came = (asked.names_types && asked.plan.is_none()) || !options.tensor_overrides.empty();
  call.model = (as_it_came ? quantizable_form(given, options) : tunable_form(given, options)).model;
  options.exclude = expand_patterns(options.exclude, call.model);
  options.include = expand_patterns(options.include, call.model);
  choose_layers(call);
  refuse_idle(call, named, k);
  if (!data.is_none()) call.data = dataset_of(data, call.model, call.bench.dataset, model);
  if (!asked.ranges.is_none()) call.ranges = ranges_of(asked.ranges);
  choose_improvers(call, k, best);
  return call;
}

// With data quantize_model() asks the device; with ranges alone nothing else does.
void choose_target_layers(QuantizeCall& call, const Refusal& refusal) {
  if (!call.asked.target || call.asked.mode != "static") return;
  std::string left =
      take_target_layers(call.recipe.quantize, *call.asked.target, call.model, call.data ? Refusal() : refusal);
  if (!left.empty()) call.notes.push_back(std::move(left));
}

// What needs no samples still may need ranges: those that were given.
Quantized without_data(const QuantizeCall& call, const Env& env, const Refusal& refusal) {
  const Recipe& recipe = call.recipe;
  const SamplesFor needed = samples_for(recipe);
  if (needed != SamplesFor::kNothing && !(needed == SamplesFor::kRanges && call.ranges))
    throw Error(Code::kUsage,
                "[quantize] no data found; static quantization, improvers and methods need samples; give data, or "
                "ranges, or mode='weights', which needs none");
  if (!call.ranges) return quantize_model(call.model, "", recipe, {}, env, refusal);
  Quantizer quantizer(call.model, *call.ranges, recipe.quantize);
  Quantized made{.given = call.model, .float_model = call.model, .options = recipe.quantize};
  made.model =
      recipe.everywhere ? quantizer.quantize_excluding({}, *recipe.everywhere) : quantizer.quantize(recipe.plan);
  made.deviations = quantizer.deviations();
  made.notes = quantizer.notes();
  made.layer_deviations = quantizer.layer_deviations();
  made.encoding = quantizer.encoding();
  return made;
}

Quantized quantize(nb::handle model, nb::handle data, nb::kwargs keywords) {
  Keywords k("quantize", keywords);
  nb::object progress = k.pop_object("progress");
  const bool verify = k.pop("verify", false);
  QuantizeCall call = read_call(model, data, k);
  if (verify && !call.data)
    throw Error(Code::kUsage, "[quantize] verify without data found; samples to run the model on expected");
  const std::optional<Target>& target = call.asked.target;
  Quantized made = seqto::python::call(progress, [&](const Env& env) {
    const Refusal refusal = target ? refusal_by(target->device, {}, env) : Refusal();
    choose_target_layers(call, refusal);
    if (!call.data) return without_data(call, env, refusal);
    call.recipe.calibration_samples = all_samples(*call.data);
    const auto runner = call.bench.open(call.model, env);
    Quantized result =
        quantize_model(call.model, "", call.recipe, RecipeData{*call.data, *runner, call.ranges}, env, refusal);
    if (!verify) return result;
    const auto safe = call.bench.open_safe(result.model, env);
    if (const auto fault =
            find_optimization_fault(result.model, {*call.data, call.recipe.calibration_samples, *safe, env}))
      result.notes.push_back(to_text(*fault));
    return result;
  });
  if (target) require_taken(made.model, *target);
  if (made.refused) made.notes.push_back(target->device + " does not take the file");
  made.notes.insert(made.notes.begin(), call.notes.begin(), call.notes.end());
  return made;
}

nb::object encoding_of(const Quantized& made) {
  return nb::module_::import_("seqto._encoding").attr("Encoding")(encoding_to_json(made));
}

void bind_quantized(nb::module_& m) {
  nb::class_<Quantized>(m, "Quantized", "A quantized model, and what was decided about it.")
      .def_ro("model", &Quantized::model)
      .def_ro("float_model", &Quantized::float_model, "that was quantized: prepared, and rewritten by improvers")
      .def_ro("notes", &Quantized::notes, "what was asked for and not done; one sentence each")
      .def_ro("deviations", &Quantized::deviations, "ids of docs/reference/compatibility.md")
      .def_prop_ro("encoding", &encoding_of, nb::sig("def encoding(self) -> seqto._encoding.Encoding"),
                   "Everything that was decided.")
      .def(
          "save", [](const Quantized& q, const std::filesystem::path& path) { save_as_loaded(q.model, path); },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"));
}

void bind_quantize_verb(nb::module_& m) {
  bind_quantized(m);
  Signature s(
      std::string("quantize(model: ") + kModel + ", data: " + kData + " | None = None, *", "Quantized",
      "One quantized model.\n\nWithout keywords that name types or improvers it gets types that are fast on this "
      "processor, and is improved on the data.\nRaises Error(usage) where data are needed and missing, "
      "Error(invalid_input) where nothing can be quantized.");
  s.with("mode", std::string("static"), "what all layers get: static, dynamic, weights or float16")
      .with("plan", Opaque{"Plan | collections.abc.Mapping[str, str] | str | os.PathLike[str] | None"},
            "schemes of the layers, in place of the mode")
      .with("ranges", Opaque{"Ranges | str | os.PathLike[str] | None"}, "in place of a calibration")
      .with("improve", std::optional<bool>{},
            "what helps most, for some more time; None: with data, unless improvers or, in static, types are named")
      .with("weight_bits", int64_t{8}, "of mode weights: 8, 4 or 2")
      .with("target", std::optional<std::string>{},
            "types and layers for another device: a name or a TOML file (docs/reference/targets.md)")
      .with("verify", false, "note where the runtime's optimizations change the answers to the data")
      .with("progress", Opaque{kProgressType},
            "called with verb, done, total and a note; True or a class of tqdm's: bars")
      .with_fields<QuantizeOptions>()
      .with_fields<CalibrateOptions>()
      .with_fields<ImproveOptions>();
  Workbench::tell(s);
  def(
      m, "quantize", s, [](nb::handle model, nb::handle data, nb::kwargs k) { return quantize(model, data, k); },
      nb::arg("model"), nb::arg("data") = nb::none(), nb::arg("keywords"));
}

// --- calibrate

Ranges calibrate_by(nb::handle model, nb::handle data, nb::kwargs keywords) {
  Keywords k("calibrate", keywords);
  nb::object progress = k.pop_object("progress");
  CalibrateOptions options;
  k.set(options);
  Workbench bench;
  bench.take(k);
  k.refuse_others();
  QuantizeOptions quantize;
  quantize.op_types = options.op_types;
  const Model prepared = quantizable_form(model_of(model), quantize).model;
  const auto samples = dataset_of(data, prepared, bench.dataset, model);
  return call(progress, [&](const Env& env) {
    const auto runner = bench.open(prepared, env);
    return calibrate(prepared, {*samples, all_samples(*samples), *runner, env}, options);
  });
}

void bind_calibrate(nb::module_& m) {
  Signature s(std::string("calibrate(model: ") + kModel + ", data: " + kData + ", *", "Ranges",
              "The ranges of the model's tensors over the data, in constant memory. One calibration serves all plans.\n"
              "Raises Error(invalid_input) naming tensor and sample where a value is NaN.");
  s.with("progress", Opaque{kProgressType}, "called with verb, done, total and a note; True or a class of tqdm's: bars")
      .with_fields<CalibrateOptions>();
  Workbench::tell(s);
  def(
      m, "calibrate", s, [](nb::handle model, nb::handle data, nb::kwargs k) { return calibrate_by(model, data, k); },
      nb::arg("model"), nb::arg("data"), nb::arg("keywords"));
}

// --- analyze

Sensitivity analyze_by(nb::handle model, nb::handle quantized, nb::handle data, nb::kwargs keywords) {
  Keywords k("analyze", keywords);
  nb::object progress = k.pop_object("progress");
  AnalyzeOptions options;
  k.set(options);
  Workbench bench;
  bench.take(k);
  k.refuse_others();
  const Model original = quantizable_form(model_of(model), {}).model, candidate = infer_shapes(model_of(quantized));
  const auto samples = dataset_of(data, original, bench.dataset, model);
  return call(progress, [&](const Env& env) {
    const auto runner = bench.open(original, env);
    Sensitivity found = analyze(original, candidate, {*samples, all_samples(*samples), *runner, env}, options);
    if (found.activations.empty() && found.weights.empty())
      throw Error(Code::kInvalidInput,
                  "[analyze] no tensor of the model found that is quantized in the other one; the model that was "
                  "quantized from it expected");
    return found;
  });
}

void bind_analyze(nb::module_& m) {
  nb::class_<ActivationError>(m, "ActivationError", "How much one activation suffers; dB, larger is better.")
      .def_ro("tensor", &ActivationError::tensor)
      .def_ro("qdq_err", &ActivationError::qdq_err, "before and after its own rounding; NaN where it has none")
      .def_ro("xmodel_err", &ActivationError::xmodel_err, "float model against quantized model")
      .def_ro("score", &ActivationError::score, "of both, 0 to 1")
      .def_ro("channels", &ActivationError::channels, "xmodel_err of each, with per_channel_detail");
  nb::class_<WeightError>(m, "WeightError", "How much one weight suffers; dB, larger is better.")
      .def_ro("tensor", &WeightError::tensor)
      .def_ro("sqnr", &WeightError::sqnr)
      .def_ro("channels", &WeightError::channels, "of each output channel, with per_channel_detail");
  nb::class_<Sensitivity>(m, "Sensitivity", "How much each tensor suffers from quantization, best first.")
      .def_ro("activations", &Sensitivity::activations)
      .def_ro("weights", &Sensitivity::weights);
  Signature s(std::string("analyze(model: ") + kModel + ", quantized: " + kModel + ", data: " + kData + ", *",
              "Sensitivity",
              "How much each tensor of a quantized model suffers, of any tool and form: both models run on the data.");
  s.with("progress", Opaque{kProgressType}, "called with verb, done, total and a note; True or a class of tqdm's: bars")
      .with_fields<AnalyzeOptions>();
  Workbench::tell(s);
  def(
      m, "analyze", s,
      [](nb::handle model, nb::handle quantized, nb::handle data, nb::kwargs k) {
        return analyze_by(model, quantized, data, k);
      },
      nb::arg("model"), nb::arg("quantized"), nb::arg("data"), nb::arg("keywords"));
}

// --- preprocess

Model preprocess_by(nb::handle model, nb::kwargs keywords) {
  Keywords k("preprocess", keywords);
  PrepareOptions options;
  k.set(options);
  const bool optimize = k.pop("optimize", true);
  Workbench bench;
  bench.take_device(k);
  k.refuse_others();
  const Model given = model_of(model);
  return call(nb::none(), [&](const Env& env) {
    const auto runner = optimize ? make_runner(bench.device.name, bench.runner, env) : nullptr;
    return preprocess(given, runner.get(), options).model;
  });
}

void bind_preprocess(nb::module_& m) {
  Signature s(std::string("preprocess(model: ") + kModel + ", *", "Model",
              "The model made fit for calibration and quantization: names, opset, shapes, and the runtime's basic "
              "optimization.");
  s.with("optimize", true, "have the runtime fold constants and fuse layers").with_fields<PrepareOptions>();
  s.with("device", std::string("cpu"), "whose runtime optimizes").with_fields<RunnerOptions>();
  def(
      m, "preprocess", s, [](nb::handle model, nb::kwargs k) { return preprocess_by(model, k); }, nb::arg("model"),
      nb::arg("keywords"));
}

// --- Quantizer

// With the rule of quantize() for plans of other models: none of the layers is an error, some are a note. Threads take
// turns; none may wait with the interpreter's lock.
class PlannedQuantizer : public Quantizer {
 public:
  using Quantizer::Quantizer;
  Model quantize(const Plan& plan) {
    std::lock_guard turn(mutex_);
    return quantize_now(plan);
  }
  std::shared_ptr<const internal::Encoding> encode(const Plan& plan) {
    std::lock_guard turn(mutex_);
    quantize_now(plan);
    return encoding();
  }
  std::vector<std::string> notes() const {
    std::lock_guard turn(mutex_);
    return notes_;
  }

 private:
  Model quantize_now(const Plan& plan) {
    Recipe recipe;
    Model same = model();
    notes_ = take_plan(recipe, plan, same);
    Model made = Quantizer::quantize(plan);
    std::ranges::copy(Quantizer::notes(), std::back_inserter(notes_));
    return made;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

void make_quantizer(PlannedQuantizer* self, nb::handle model, nb::handle ranges, nb::kwargs keywords) {
  Keywords k("Quantizer", keywords);
  QuantizeOptions options;
  k.set(options);
  k.refuse_others();
  const Model prepared = tunable_form(model_of(model), options).model;
  options.exclude = expand_patterns(options.exclude, prepared);
  options.include = expand_patterns(options.include, prepared);
  new (self) PlannedQuantizer(prepared, ranges.is_none() ? Ranges{} : ranges_of(ranges), options);
}

void bind_quantizer(nb::module_& m) {
  Signature s(
      std::string("__init__(self, model: ") + kModel + ", ranges: Ranges | str | os.PathLike[str] | None = None, *",
      "None", "Ranges are needed for static layers.");
  s.with_fields<QuantizeOptions>();
  nb::class_<PlannedQuantizer>(
      m, "Quantizer", "Makes many candidates of one model: the model is read once, a candidate costs milliseconds.")
      .def(
          "__init__",
          [](PlannedQuantizer* self, nb::handle model, nb::handle ranges, nb::kwargs k) {
            make_quantizer(self, model, ranges, k);
          },
          nb::arg("model"), nb::arg("ranges") = nb::none(), nb::arg("keywords"), nb::sig(s.text().c_str()),
          s.doc().c_str())
      .def(
          "quantize",
          [](PlannedQuantizer& q, const Plan& plan) {
            require_as_loaded(q.model());
            nb::gil_scoped_release interpreter;
            return q.quantize(plan);
          },
          nb::arg("plan"),
          "The model under the plan. Raises Error(invalid_input) where none of its layers is one of the model's.")
      .def(
          "encode",
          [](PlannedQuantizer& q, const Plan& plan) {
            require_as_loaded(q.model());
            Quantized made;
            {
              nb::gil_scoped_release interpreter;
              made.encoding = q.encode(plan);
            }
            return encoding_of(made);
          },
          nb::arg("plan"), nb::sig("def encode(self, plan: Plan) -> seqto._encoding.Encoding"),
          "What quantize() decides.")
      .def_prop_ro("model", &PlannedQuantizer::model, "the float one, with the names that plans use")
      .def_prop_ro("notes", &PlannedQuantizer::notes, nb::call_guard<nb::gil_scoped_release>(),
                   "of the last plan: what it asked for and did not get");
}

}  // namespace

void bind_quantize(nb::module_& m) {
  bind_quantize_verb(m);
  bind_calibrate(m);
  bind_analyze(m);
  bind_preprocess(m);
  bind_quantizer(m);
}

}  // namespace seqto::python
