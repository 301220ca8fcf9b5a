// Room: runner. The node Observe as an operator of ONNX Runtime. Included by onnxruntime_runner.cc only.
#pragma once

#include <memory>

#include "seqto/runner.h"

struct OrtCustomOpDomain;

namespace seqto::internal {

// The operator Observe in its domain, bound to one observer. Outlives the sessions that it is registered with.
class ObserveDomain {
 public:
  // `api_version`: of the loaded library.
  ObserveDomain(Observer& observer, uint32_t api_version);
  ~ObserveDomain();
  OrtCustomOpDomain* get() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace seqto::internal
