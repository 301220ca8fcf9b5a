// Room: runner. A runner of another device, which leaves to this machine's CPU what looks into a model.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "seqto/runner.h"

namespace seqto::internal {

// load_observed() and optimized() are ONNX Runtime's, in this process: their results are equal on every device.
class HostedRunner : public Runner {
 public:
  HostedRunner(const RunnerOptions& options, const Env& env) : options_(options), env_(env) {}
  std::unique_ptr<Session> load_observed(const Model& model, std::span<const std::string> tensors, Observer& observer,
                                         const SessionOptions& options) override;
  Model optimized(const Model& model) override;

 protected:
  // A session of `load` that begins again where the link broke. Who names a device that is not there should not wait
  // long to learn it: the first has less patience.
  std::unique_ptr<Session> persistent(std::function<std::unique_ptr<Session>()> load);

  RunnerOptions options_;
  Env env_;

 private:
  Runner& host();

  std::atomic<bool> connected_ = false;  // it was, once
  std::mutex mutex_;
  std::unique_ptr<Runner> host_;  // made when it is needed
};

}  // namespace seqto::internal
