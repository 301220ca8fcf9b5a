#include "runner/onnxruntime_runner.h"
#include "seqto/error.h"

namespace seqto::internal {

std::unique_ptr<Runner> make_onnxruntime_runner(const std::string&, const RunnerOptions&, const Env&) {
  throw Error(Code::kUnavailable, "[onnxruntime] built without ONNX Runtime; configure with -DSEQTO_ONNXRUNTIME=ON");
}

std::string onnxruntime_file(const RunnerOptions&) { return ""; }

}  // namespace seqto::internal
