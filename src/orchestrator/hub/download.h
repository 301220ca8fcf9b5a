// Files from http:// and https:// URLs, by libcurl, which is loaded when it is first needed.
#pragma once

#include <filesystem>
#include <string>

#include "seqto/hub.h"

namespace seqto::internal {

struct Download {
  std::string url;
  std::filesystem::path to;  // what is there already is taken for the file's beginning
  int64_t max_bytes = 0;     // more than these is an error; 0: no limit
  bool exact = false;        // fewer are one too
};

struct Downloaded {
  std::string failure;   // empty: it is there
  bool resumed = false;  // in parts, which a hub that changed meanwhile may not fit together
};

// Redirects are followed, never from https to http. A cut connection is taken up again where it was cut, up to
// five times without progress. What the network or the server cannot do is a failure; throws Error: kUsage
// (no such URL), kInvalidInput (too long, no room), kUnavailable (no libcurl), kInterrupted.
Downloaded download(const Download& file, const Env& env);

}  // namespace seqto::internal
