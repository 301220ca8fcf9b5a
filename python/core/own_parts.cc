#include "own_parts.h"

namespace seqto::python {
namespace {

nb::handle function_of(nb::handle given, const char* what) {
  if (!PyCallable_Check(given.ptr())) throw nb::type_error((std::string(what) + " expected").c_str());
  return given;
}

void add_device(TuneOptions& o, const GivenDevice& device) {
  o.devices.push_back(device.name);
  if (device.load) o.own.devices[device.name] = [device](const Env&) { return own_device(device.name, *device.load); };
}

Held loader_of(nb::handle given) {
  return Held(nb::borrow(function_of(given, "device: a name, or a function that loads a model,")));
}

void take_devices(Keywords& k, TuneOptions& o) {
  const nb::object device = k.pop_object("device"), devices = k.pop_object("devices");
  if (device.is_none() && devices.is_none()) return;
  o.devices.clear();
  if (devices.is_none()) add_device(o, device_of(device));
  else if (nb::hasattr(devices, "keys"))
    set_pairs(devices,
              [&](nb::handle name, nb::handle load) { add_device(o, {nb::cast<std::string>(name), loader_of(load)}); });
  else
    for (nb::handle item : list_of(devices, "devices: ")) add_device(o, device_of(item));
  if (o.devices.empty()) throw nb::type_error("devices: none found; at least one expected, as 'cpu'");
}

void take_strategy(Keywords& k, TuneOptions& o) {
  const nb::object given = k.pop_object("strategy");
  if (given.is_none()) return;
  if (nb::isinstance<nb::str>(given)) {
    o.strategy = nb::cast<std::string>(given);
    return;
  }
  if (!nb::hasattr(given, "ask") || !nb::hasattr(given, "tell"))
    throw nb::type_error("strategy: a name, or an object with ask(space) and tell(plan, trial) expected");
  o.strategy = name_of(given);
  o.own.strategy = [held = Held(given)](const SearchSpace& space, const StrategyOptions& options) {
    return own_strategy(held, space, options);
  };
}

}  // namespace

Held::Held(nb::object object)
    : object_(new nb::object(std::move(object)), [](nb::object* held) {
        if (!Py_IsInitialized()) return;  // the process ends
        nb::gil_scoped_acquire interpreter;
        delete held;
      }) {}

RaisedByDevice::RaisedByDevice(const std::string& device, const nb::python_error& error)
    : Error(Code::kInvalidInput, "[" + device + "] " + nb::cast<std::string>(error.type().attr("__name__")) + ": " +
                                     nb::cast<std::string>(nb::str(error.value()))),
      error_(std::make_shared<nb::python_error>(error)) {}

GivenDevice device_of(nb::handle given) {
  if (nb::isinstance<nb::str>(given)) return {nb::cast<std::string>(given), {}};
  return {name_of(given), loader_of(given)};
}

std::string name_of(nb::handle part) {
  for (const char* attribute : {"name", "__name__"}) {
    if (!nb::hasattr(part, attribute)) continue;
    const nb::object found = part.attr(attribute);
    if (!nb::isinstance<nb::str>(found)) continue;
    if (nb::cast<std::string>(found) == "<lambda>")
      throw nb::type_error("a lambda has no name for files and tables; a function with one expected");
    return nb::cast<std::string>(found);
  }
  return nb::cast<std::string>(part.type().attr("__name__"));
}

Metrics take_metrics(Keywords& k, MetricOptions& o) {
  const nb::object given = k.pop_object("metrics");
  Metrics own;
  if (given.is_none()) return own;
  for (nb::handle item : list_of(given, "metrics: ")) {
    if (nb::isinstance<nb::str>(item)) o.metrics.push_back(nb::cast<std::string>(item));
    else own.push_back(own_metric(function_of(item, "metrics: names or functions")));
  }
  return own;
}

void tell_metrics(Signature& s) {
  s.with("metrics", Opaque{"collections.abc.Sequence[str | seqto._types.MetricFunction] | None"},
         "names: \"accuracy\" (top1 by another name), \"mae\", \"rmse\", \"nme\", \"nme=FILE.json\", "
         "\"map50=FILE.json\"; and functions of the answers of all samples and of what the data say is right, whose "
         "result is better when it is higher");
}

void take_own_parts(Keywords& k, TuneOptions& o) {
  take_devices(k, o);
  take_strategy(k, o);
  o.own.metrics = take_metrics(k, o.metrics);
}

void tell_own_parts(Signature& s) {
  s.with("device", Opaque{kDevice, "'cpu'"},
         "where to run: a name, or a function that loads a model and gives one that runs it; `devices` takes several")
      .with("devices",
            Opaque{"collections.abc.Sequence[str | seqto._types.Device] | collections.abc.Mapping[str, "
                   "seqto._types.Device] | None"},
            "every candidate is measured on each; the search follows the first")
      .with("strategy", Opaque{"str | seqto._types.Proposer", "'chain'"},
            "a name, or an object that is asked for plans and told what became of them");
  tell_metrics(s);
}

}  // namespace seqto::python
