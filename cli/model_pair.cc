#include "model_pair.h"

#include <algorithm>

namespace seqto::cli {
namespace {

bool same_inputs(const Model& a, const Model& b) {
  return std::ranges::equal(a.graph.free_inputs(), b.graph.free_inputs(), [](const ValueInfo& x, const ValueInfo& y) {
    return x.name == y.name && x.type == y.type;
  });
}

}  // namespace

void add_model_pair_flags(Command word, ModelPairFlags& f) {
  add_data_flags(word, f.data, false);
  add_device_flags(word, f.device);
  add_hub_flags(word, f.hub);
  word.under("Device")
      .in_detail()
      .add_option("--reference-device", f.reference_device, "Where the reference runs; --device is the candidate's")
      .capture_default_str()
      .type_name("NAME");
}

ModelPair::ModelPair(const ModelPairFlags& f, const Context& context) : flags_(f) {
  reference_ = model_file(f.reference, f.hub, context);
  candidate_ = model_file(f.candidate, f.hub, context);
  Model reference = load_model(reference_), candidate = load_model(candidate_);
  require_same_signature(reference, candidate);
  data_ = open_data(reference_, reference, f.data, context);
  // The reference's files beside it are the candidate's too, which `quantize` writes elsewhere.
  if (!same_inputs(reference, candidate)) other_data_ = open_data(reference_, candidate, f.data, context);
  else other_data_ = data_;
  runner_ = safe_runner_for(reference, f.data, f.reference_device, f.device.options, context);
  other_runner_ = f.device.device == f.reference_device && !may_end_process(candidate, f.device.device)
                      ? runner_
                      : safe_runner_for(candidate, f.data, f.device.device, f.device.options, context);
}

BenchResult ModelPair::bench(const Context& context) const {
  BenchOptions options;
  options.device = flags_.device.device;
  options.runner = flags_.device.options;
  options.dataset = flags_.data.options;
  use_this_program(options.runner);
  const BenchInput inputs[]{{reference_, data_.get()}, {candidate_, other_data_.get()}};
  return seqto::bench(inputs, options, context.env);
}

}  // namespace seqto::cli
