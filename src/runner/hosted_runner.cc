#include "runner/hosted_runner.h"

#include <algorithm>

#include "runner/reconnecting_session.h"

namespace seqto::internal {
namespace {

constexpr double kFirstPatience = 5;  // seconds

}  // namespace

std::unique_ptr<Session> HostedRunner::load_observed(const Model& model, std::span<const std::string> tensors,
                                                     Observer& observer, const SessionOptions& options) {
  return host().load_observed(model, tensors, observer, options);
}

Model HostedRunner::optimized(const Model& model) { return host().optimized(model); }

std::unique_ptr<Session> HostedRunner::persistent(std::function<std::unique_ptr<Session>()> load) {
  const double patience = options_.reconnect_seconds;
  auto session = std::make_unique<ReconnectingSession>(
      std::move(load), connected_ ? patience : std::min(kFirstPatience, patience), patience, env_);
  connected_ = true;
  return session;
}

Runner& HostedRunner::host() {
  std::lock_guard lock(mutex_);
  if (!host_) {
    RunnerOptions here = options_;
    here.isolated = false;
    here.provider_options.clear();  // of the device
    host_ = make_runner("cpu", here, env_);
  }
  return *host_;
}

}  // namespace seqto::internal
