// Room: data. What a sample of a sequence model tells of its positions: token ids, and which of them count.
#pragma once

#include <memory>
#include <span>

#include "seqto/dataset.h"

namespace seqto {

// `data` with Sample::tokens and Sample::counted, where these inputs hold any; else `data` itself. open_dataset() has
// done so; a Dataset of your own may leave it to this.
std::unique_ptr<Dataset> with_positions(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs);

}  // namespace seqto
