// Room: runner. Recurrent models: states that go from one sample to the next.
#pragma once

#include <memory>

#include "seqto/dataset.h"
#include "seqto/runner.h"

namespace seqto {

// `runner`, whose sessions carry the states of options.states; `runner` itself where there are none. `model` is the
// float model: it tells the shapes of the states, which are zeros of the state input's shape at the start (an open
// batch is 1, other open dimensions need options.dims).
//
// Each session has states of its own: a quantized model drifts by its own errors, as it will in use. A run goes on from
// the states that the run before left when its sample is the next of the same sequence; a sample that is run again
// starts where it started; every other sample starts at zero. So the first sample of a part (calibration, evaluation)
// starts at zero, and results depend on the samples alone, not on threads or processes. Models that are loaded may have
// other inputs and outputs than `model`, but the states' among them; states that are no output (a model cut open to
// look inside) are made one and hidden; a part of a model that does not compute them gets those of `model`, which runs
// beside it.
//
// Samples come from open_dataset() with the same options. run_many() runs them one after the other: each needs the
// states of the one before.
// Throws Error{kUsage} where a state names no input or output, or they differ in type.
std::unique_ptr<Runner> carry_states(std::unique_ptr<Runner> runner, const Model& model, const DatasetOptions& options);

}  // namespace seqto
