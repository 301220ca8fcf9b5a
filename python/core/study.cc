// tune, report, validate and bench.
#include <algorithm>
#include <limits>

#include "call.h"
#include "data.h"
#include "module.h"
#include "own_parts.h"
#include "seqto/ask.h"
#include "seqto/bench.h"
#include "seqto/prepare.h"
#include "seqto/report.h"
#include "seqto/validate.h"

namespace seqto::python {
namespace {

// --- tune

// A model that a verb reads from a file: the path that was given, or one that it is written to.
std::filesystem::path model_file(nb::handle given, const std::filesystem::path& otherwise) {
  if (is_path(given)) return path_of(given);
  const Model model = model_of(given);
  save_model(model, otherwise);
  return otherwise;
}

// Of tune() also an encoder and its decoders.
void take_model(TuneOptions& o, nb::handle given) {
  if (!nb::isinstance<nb::tuple>(given) || nb::len(given) < 2) {
    o.model = model_file(given, o.output / "model.onnx");
    return;
  }
  std::vector<std::filesystem::path> decoders;
  for (size_t i = 1; i < nb::len(given); ++i) {
    const std::string name = i == 1 ? "decoder" : "cached_decoder" + (i == 2 ? "" : "_" + std::to_string(i - 1));
    decoders.push_back(model_file(given[i], o.output / (name + ".onnx")));
  }
  take_pair(o, model_file(given[0], o.output / "encoder.onnx"), decoders);
}

void take_defaults(TuneOptions& o, const Keywords& k, std::optional<bool> improve) {
  if (improve.value_or(o.improvers == ImproveOptions{} && improves_unasked(o))) {
    o.improvers = joined(o.improvers, improve ? recommended_improvers(Scheme::kInt8, o.quantize.activation_type)
                                              : default_improvers(Scheme::kInt8, o.quantize.activation_type));
    const auto wide = [](const std::string& scheme) { return scheme.find("int16") != std::string::npos; };
    take_recommended(o.quantize, named_options(k),
                     wide(std::string(to_string(o.quantize.activation_type))) || std::ranges::any_of(o.schemes, wide));
  }
  if (o.strategy != "incremental" && !k.given("float_unlike_concat") && !o.quantize.compat_onnxruntime)
    o.quantize.float_unlike_concat = true;
  if (k.given_any(kTypeFields) && !k.given("fast_types")) o.fast_types = false;
  if (!k.given("correct_weights"))
    o.correct_weights = improve.value_or(true) && !k.given("learned_rounding") && !k.given("bias_correction");
}

TuneOptions tune_options(nb::handle model, nb::handle data, const std::filesystem::path& output, Keywords& k) {
  const auto improve = k.pop("improve", std::optional<bool>{});
  TuneOptions o;
  o.runner.isolated = true;
  take_own_parts(k, o);
  o.names_method = k.given("method");
  k.set(o);
  k.refuse_others();
  take_quantize_options(o.calibrate, o.quantize, o.names_method);
  find_runtime(o.runner);
  o.output = output;
  take_model(o, model);
  const Model file = load_model(o.model);
  std::vector<ValueInfo> inputs = file.graph.free_inputs();
  if (is_sequence_of_samples(data)) {
    o.own.data = open_sequence(data, inputs);
  } else {
    std::erase_if(inputs, [&](const ValueInfo& input) { return o.dataset.constants.contains(input.name); });
    o.data = data_file(data, inputs, output / "data.npz");
  }
  for (Limit& limit : o.limits)
    if (std::ranges::any_of(o.own.metrics, [&](const auto& m) { return m->name() == limit.figure; }))
      limit.at_most = false;
  take_defaults(o, k, improve);
  return o;
}

nb::object tune_by(nb::handle model, nb::handle data, const std::filesystem::path& output, nb::kwargs keywords) {
  Keywords k("tune", keywords);
  nb::object progress = k.pop_object("progress");
  const auto executor = k.pop("executor", std::optional<std::string>{});
  TuneOptions o = tune_options(model, data, output, k);
  if (executor) {
    o.workers = *executor;
    o.config = nb::cast<std::string>(
        nb::module_::import_("seqto._keywords").attr("as_config")(*executor, o.model, o.data, keywords));
  }
  call(progress, [&](const Env& env) { return tune(o, env); });
  return nb::module_::import_("seqto._study").attr("Study")(output);
}

void bind_tune(nb::module_& m) {
  Signature s(
      std::string("tune(model: ") + kModel + " | tuple[" + kModel + ", ...], data: " + kData +
          ", output: str | os.PathLike[str], *",
      "seqto._study.Study",
      "The main job: finds which layers to quantize, and how. Writes a study with its models, plans and report "
      "below `output`, and goes on with the one that is there. Several models are an encoder and its decoder, tuned as "
      "one, and that decoder's files with a cache.\nOn Ctrl-C the study keeps what is finished.");
  TuneOptions defaults;
  defaults.runner.isolated = true;
  s.without({"model", "data", "output"})
      .with("improve", std::optional<bool>{}, "what helps most; None: where the search is free to")
      .with("progress", Opaque{kProgressType},
            "called with verb, done, total and a note; True or a class of tqdm's: bars")
      .with("executor", std::optional<std::string>{},
            "who measures in the search: 'ray' or 'ray:ADDRESS'; None: this machine");
  tell_own_parts(s);
  s.with_fields(defaults);
  def(
      m, "tune", s,
      [](nb::handle model, nb::handle data, const std::filesystem::path& output, nb::kwargs k) {
        return tune_by(model, data, output, k);
      },
      nb::arg("model"), nb::arg("data"), nb::arg("output"), nb::arg("keywords"));
}

// What such an executor runs on its machines: seqto._evaluate.
void bind_evaluator(nb::module_& m) {
  nb::class_<Evaluator>(m, "Evaluator", "Measures what a study asks for; `seqto eval DIR -` in Python's options.")
      .def(
          "__init__",
          [](Evaluator* self, nb::handle model, nb::handle data, const std::filesystem::path& output,
             nb::kwargs given) {
            Keywords k("tune", given);
            TuneOptions o = tune_options(model, data, output, k);
            o.resume = true;
            new (self) Evaluator(o);
          },
          nb::arg("model"), nb::arg("data"), nb::arg("output"), nb::arg("keywords"),
          nb::sig("def __init__(self, model: str, data: str, output: str, **keywords: typing.Any) -> None"))
      .def(
          "answer", [](Evaluator& self, const std::string& proposal) { return result_to_json(self.answer(proposal)); },
          nb::arg("proposal"), "A line for a line.");
}

void bind_report(nb::module_& m) {
  m.def(
      "study_table", [](const std::filesystem::path& dir) { return summary_table(read_summary(dir)); }, nb::arg("dir"),
      nb::call_guard<nb::gil_scoped_release>(), nb::sig("def study_table(dir: str | os.PathLike[str]) -> str"),
      "The table of a study, drawn from study.jsonl; nothing is written.");
  m.def(
      "study_files",
      [](const std::filesystem::path& dir, const std::string& called) {
        const StudyFiles files = files_in_study(dir, called);
        return std::pair(files.model.string(), files.plan.string());
      },
      nb::arg("dir"), nb::arg("called"),
      nb::sig("def study_files(dir: str | os.PathLike[str], called: str) -> tuple[str, str]"),
      "Model and plan of a point, by its name or id.");
}

// --- validate

// Files of models that were given as values, for verbs that read files; gone with this.
class Files {
 public:
  Files()
      : folder_(nb::cast<std::string>(nb::module_::import_("tempfile").attr("mkdtemp")(nb::arg("prefix") = "seqto-"))) {
  }
  ~Files() {  // without the interpreter, which may hold a Ctrl-C to be raised
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::filesystem::path of(nb::handle model) {
    return model_file(model, folder_ / ("model" + std::to_string(count_++) + ".onnx"));
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

Parity validate_by(nb::handle reference, nb::handle candidate, nb::handle data, nb::kwargs keywords) {
  Keywords k("validate", keywords);
  nb::object progress = k.pop_object("progress");
  ParityOptions options;
  options.own_metrics = take_metrics(k, options.metrics);
  k.set(options);
  // Who limits what matters does not ask for equal values as well.
  if (!options.limits.empty() && !k.given("abs_tol") && !k.given("mean_tol"))
    options.abs_tol = options.mean_tol = std::numeric_limits<double>::infinity();
  Workbench bench;
  bench.take(k);
  k.refuse_others();
  Files files;
  const auto first = files.of(reference), second = files.of(candidate);
  const Model a = load_model(first), b = load_model(second);
  require_same_signature(a, b);
  const nb::object batches = read_once(data);
  const auto samples = dataset_of(batches, a, bench.dataset, reference);
  const auto others = dataset_of(batches, b, bench.dataset, reference);
  return call(progress, [&](const Env& env) {
    const auto runner = bench.open_safe(computes_in_float16(b) ? b : a, env);
    return validate({first.string(), runner.get(), samples.get()}, {second.string(), runner.get(), others.get()},
                    options, env);
  });
}

void bind_validate(nb::module_& m) {
  nb::class_<Parity>(m, "Parity", "Two models compared on the same inputs.")
      .def_prop_ro(
          "passed", [](const Parity& p) { return passed(p); }, "every output, and every limit")
      .def_prop_ro("failures", &parity_failures, "what did not pass, one sentence each")
      .def(
          "to_dict", [](const Parity& p) { return from_json(parity_to_json(p)); },
          nb::sig("def to_dict(self) -> dict[str, typing.Any]"), "docs/reference/validate.md")
      .def("save", &write_parity, nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
           "Writes a page: .html, .md or .json.")
      .def("__bool__", [](const Parity& p) { return passed(p); })
      .def("__str__", [](const Parity& p) { return parity_text(p); });
  Signature s(std::string("validate(reference: ") + kModel + ", candidate: " + kModel + ", data: " + kData + ", *",
              "Parity", "Whether two models give the same outputs on the data.");
  s.with("progress", Opaque{kProgressType},
         "called with verb, done, total and a note; True or a class of tqdm's: bars");
  tell_metrics(s);
  s.with_fields<ParityOptions>();
  Workbench::tell(s);
  def(
      m, "validate", s,
      [](nb::handle a, nb::handle b, nb::handle data, nb::kwargs k) { return validate_by(a, b, data, k); },
      nb::arg("reference"), nb::arg("candidate"), nb::arg("data"), nb::arg("keywords"));
}

// --- bench

BenchResult bench_by(nb::handle models, nb::handle data, nb::kwargs keywords) {
  Keywords k("bench", keywords);
  nb::object progress = k.pop_object("progress");
  BenchOptions options;
  k.set(options);
  k.refuse_others();
  find_runtime(options.runner);
  const nb::object batches = read_once(data);
  const bool random = nb::isinstance<nb::str>(batches) && nb::cast<std::string>(batches) == "random";
  if (random && options.dataset.samples == 0) options.dataset.samples = 10;
  Files files;
  std::vector<std::unique_ptr<Dataset>> samples;
  std::vector<BenchInput> inputs;
  nb::list listed;
  if (is_model(models)) listed.append(models);
  else
    for (nb::handle model : list_of(models)) listed.append(model);
  for (nb::handle model : listed) {
    const auto file = files.of(model);
    // The original's files beside it are those of all: what is made of it may lie elsewhere.
    samples.push_back(dataset_of(batches, load_model(file), options.dataset, listed[0]));
    inputs.push_back({file.string(), samples.back().get()});
  }
  return call(progress, [&](const Env& env) { return bench(inputs, options, env); });
}

void bind_bench(nb::module_& m) {
  nb::class_<BenchResult>(m, "BenchResult", "Models timed side by side; the first is what others are compared with.")
      .def_prop_ro(
          "latencies_ns",
          [](const BenchResult& r) {
            std::vector<int64_t> medians;
            for (const BenchedModel& model : r.models) medians.push_back(model.p50_ns);
            return medians;
          },
          "the median of each model")
      .def(
          "to_dict", [](const BenchResult& r) { return from_json(bench_to_json(r)); },
          nb::sig("def to_dict(self) -> dict[str, typing.Any]"), "docs/reference/bench_models.md")
      .def("save", &write_bench, nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
           "Writes a page: .html, .md or .json.")
      .def("__str__", [](const BenchResult& r) { return bench_text(r); });
  Signature s(std::string("bench(models: ") + kModel + " | collections.abc.Sequence[" + kModel + "], data: " + kData +
                  " = 'random', *",
              "BenchResult", "Latency, memory and size of models side by side, each in processes of its own.");
  s.with("progress", Opaque{kProgressType}, "called with verb, done, total and a note; True or a class of tqdm's: bars")
      .with_fields<BenchOptions>();
  def(
      m, "bench", s, [](nb::handle models, nb::handle data, nb::kwargs k) { return bench_by(models, data, k); },
      nb::arg("models"), nb::arg("data") = "random", nb::arg("keywords"));
}

}  // namespace

void bind_study(nb::module_& m) {
  bind_tune(m);
  bind_evaluator(m);
  bind_report(m);
  bind_validate(m);
  bind_bench(m);
}

}  // namespace seqto::python
