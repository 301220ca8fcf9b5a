// Room: runner. What is copied to a machine that has no seqto: the program with its libraries, as one archive.
#pragma once

#include <string>

#include "base/files.h"
#include "seqto/runner.h"

namespace seqto::internal {

// An archive with bin/seqto and lib/seqto, in a folder of its own or at the top, as `./dev package` makes it.
struct WorkerBundle {
  std::string key;      // by content
  std::string machine;  // `uname -m` of where it runs; empty: as its user says
  std::string file;     // the archive; empty until it is packed
};
// $SEQTO_WORKER_PACKAGE, or else this program with the libraries that it needs beyond the C library's, and ONNX
// Runtime. No key where that cannot be: a program that is no executable file of its own, as in Python.
// Throws Error{kUsage} where the named file is not there.
std::string worker_package();  // $SEQTO_WORKER_PACKAGE
WorkerBundle find_bundle(const RunnerOptions& options, const Env& env);
// Writes the archive, where it is not one already, into the folder.
void pack(WorkerBundle& bundle, const RunnerOptions& options, const TemporaryFolder& folder, const Env& env);

}  // namespace seqto::internal
