// seqto._core: the public headers as a Python module, and the command.
#include "module.h"

#include <cstdlib>

#include "commands.h"
#include "own_parts.h"
#include "seqto/error.h"
#include "seqto/prepare.h"

namespace seqto::python {

void find_runtime(RunnerOptions& options) {
  nb::module_ runtime = nb::module_::import_("seqto._runtime");
  if (options.library.empty() && !std::getenv("SEQTO_ORT_LIBRARY"))
    options.library = nb::cast<std::string>(runtime.attr("library")());
  if (options.worker.empty() && !std::getenv("SEQTO_WORKER"))
    options.worker = nb::cast<std::string>(runtime.attr("worker")());
}

void Workbench::take(Keywords& keywords) {
  keywords.set(dataset);
  take_device(keywords);
}

void Workbench::take_device(Keywords& keywords) {
  keywords.set(runner);
  if (const nb::object given = keywords.pop_object("device"); !given.is_none()) device = device_of(given);
  find_runtime(runner);
}

void Workbench::tell(Signature& signature) {
  signature
      .with("device", Opaque{kDevice, "'cpu'"},
            "where to run: cpu, cuda, openvino ... (docs/guide/devices.md), or a function that loads a model and gives "
            "one that runs it")
      .with_fields<DatasetOptions>()
      .with_fields<RunnerOptions>();
}

std::unique_ptr<Runner> Workbench::open_safe(const Model& model, const Env& env) const {
  Workbench apart = *this;
  apart.runner.isolated |= device.name == "cpu" && !device.load && computes_in_float16(model);
  return apart.open(model, env);
}

std::unique_ptr<Runner> Workbench::open(const Model& model, const Env& env) const {
  auto made = device.load ? own_device(device.name, *device.load) : make_runner(device.name, runner, env);
  return carry_states(std::move(made), model, dataset);
}

namespace {

// seqto.Error with its code; set aside when the module is made.
void translate(const std::exception_ptr& raised, void* payload) {
  try {
    std::rethrow_exception(raised);
  } catch (const RaisedByDevice& error) {
    error.raise();
  } catch (const Error& error) {
    nb::handle type(static_cast<PyObject*>(payload));
    nb::object value = type(error.what());
    value.attr("code") = error.code();
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

void bind_error(nb::module_& m) {
  nb::enum_<Code>(m, "Code", nb::is_arithmetic(), "What kind of trouble; the value is the exit code of the command.")
      .value("internal", Code::kInternal, "a fault of seqto")
      .value("usage", Code::kUsage, "options that make no sense")
      .value("invalid_input", Code::kInvalidInput, "model, data or configuration")
      .value("unavailable", Code::kUnavailable, "runtime or device not there")
      .value("gate_not_met", Code::kGateNotMet, "a limit is not kept")
      .value("interrupted", Code::kInterrupted, "the best so far is saved");
  nb::object error = nb::module_::import_("seqto._error").attr("Error");
  m.attr("Error") = error;
  nb::register_exception_translator(translate, error.release().ptr());
}

void run_command(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  nb::gil_scoped_release interpreter;
  cli::run_program(static_cast<int>(words.size()), arguments.data());
}

}  // namespace
}  // namespace seqto::python

NB_MODULE(_core, m) {
  using namespace seqto::python;
  nb::set_leak_warnings(false);  // exceptions hold frames, and frames what they like
  m.doc() = "The library of seqto; use it through the package seqto.";
  m.attr("version") = SEQTO_VERSION;
  bind_error(m);
  bind_model(m);
  bind_quantize(m);
  bind_study(m);
  bind_strategy(m);
  bind_oracle(m);
  bind_loss_debug(m);
  m.def("run_command", &run_command, nb::arg("argv"),
        nb::sig("def run_command(argv: collections.abc.Sequence[str]) -> typing.NoReturn"),
        "Runs the command line and ends the process.");
}
