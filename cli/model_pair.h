// A model and the one it came from, with samples and devices: what validate and check work on.
#pragma once

#include <memory>
#include <string>

#include "flags.h"
#include "hub_flags.h"
#include "seqto/bench.h"
#include "seqto/validate.h"

namespace seqto::cli {

struct ModelPairFlags {
  std::string reference, candidate, reference_device = "cpu";
  DataFlags data;
  DeviceFlags device;
  HubOptions hub;
};
void add_model_pair_flags(Command word, ModelPairFlags& flags);  // but for the two names

class ModelPair {
 public:
  // Throws what require_same_signature(), open_dataset() and make_runner() throw.
  ModelPair(const ModelPairFlags& flags, const Context& context);
  ParitySide reference() const { return {reference_, runner_.get(), data_.get()}; }
  ParitySide candidate() const { return {candidate_, other_runner_.get(), other_data_.get()}; }
  // Side by side on the candidate's device.
  BenchResult bench(const Context& context) const;

 private:
  const ModelPairFlags& flags_;
  std::string reference_, candidate_;              // their files
  std::shared_ptr<Dataset> data_, other_data_;     // the same where both models take the same inputs
  std::shared_ptr<Runner> runner_, other_runner_;  // the same where both run on one device
};

}  // namespace seqto::cli
