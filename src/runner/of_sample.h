// Room: runner. Errors of a run say which sample it was of: who reads a folder of files wants to know which to mend.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "seqto/runner.h"

namespace seqto::internal {

// What `run` returns, which runs that sample. Interruptions, and devices that are gone, are no sample's fault.
template <class Run>
auto of_sample(std::string_view name, Run run) -> decltype(run()) {
  try {
    return run();
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted || name.empty()) throw;
    throw Error(error.code(), fmt::format("{}; the sample was {}", error.what(), name));
  }
}

}  // namespace seqto::internal
