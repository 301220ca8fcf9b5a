// Room: runner. The program at the other end of a link: found there, or copied there once.
#pragma once

#include <string>
#include <vector>

#include "runner/link.h"
#include "seqto/runner.h"

namespace seqto::internal {

// The command that runs a worker there, for link.device: seqto of this version on PATH there, else a copy of
// find_bundle() in the cache there. With options.library or $SEQTO_WORKER_PACKAGE it is the copy in any case.
// Throws Error{kUnavailable} where the machine is not reached, or neither is to be had.
std::vector<std::string> far_worker(const Link& link, const RunnerOptions& options, const Env& env);

}  // namespace seqto::internal
