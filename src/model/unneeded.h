// Room: model. What a file can do without.
#pragma once

#include "seqto/model.h"

namespace seqto::internal {

// Leaves an optional input out that a constant without elements stands in for, where the operator takes that for the
// same; bodies of If, Loop and Scan included. Returns how many. Opset 11 wants every input of Resize there, so
// exporters give it an empty `roi` and empty `scales` beside `sizes`; from opset 13 on what is there counts, and
// runtimes refuse `scales` and `sizes` together.
int drop_empty_inputs(Model& model);

// The model without what PyTorch's exporter notes of each node and tensor, bodies included: where in the source it
// comes from, and in which modules. That is a kilobyte or two a node, with paths of the machine that exported it. Other
// metadata stay: runtimes read some.
Model without_export_notes(Model model);
// Bytes that this saves; 0 where they are less than a twentieth of the model.
int64_t export_note_bytes(const Model& model);

}  // namespace seqto::internal
