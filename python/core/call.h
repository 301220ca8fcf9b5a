// Runs a verb while the interpreter goes on: signals, logging and progress reach the caller's thread.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <utility>

#include "seqto/env.h"

namespace seqto::python {

namespace nb = nanobind;

// `work` runs on a thread of its own, without the interpreter's lock. Meanwhile the calling thread looks for signals
// twenty times a second, hands what is logged to logging.getLogger("seqto"), and the latest progress to
// `progress(verb, done, total, note)`, or to bars of tqdm, where that is not None. What any of these raises cancels the
// work and is raised.
void run_beside(const std::function<void(const Env&)>& work, nb::handle progress);

template <class F>
auto call(nb::handle progress, F&& verb) {
  std::optional<decltype(verb(std::declval<const Env&>()))> result;
  run_beside([&](const Env& env) { result.emplace(verb(env)); }, progress);
  return std::move(*result);
}

}  // namespace seqto::python
