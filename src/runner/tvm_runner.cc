#include "runner/tvm_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "runner/reconnecting_session.h"
#include "runner/tvm_compile.h"
#include "runner/worker_runner.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {
namespace {

bool is_there(const std::string& program) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (program.find('/') != std::string::npos) return fs::exists(program, error);
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable ? variable : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (fs::exists(fs::path(folder) / program, error)) return true;
  return false;
}

std::string required_executable(const RunnerOptions& options) {
  const std::string program = tvm_executable(options);
  if (is_there(program)) return program;
  throw Error(
      Code::kUnavailable,
      fmt::format("[tvm] no program {} found; it was expected beside seqto or in PATH; make it with `./dev setup "
                  "tvm` and `./dev build`, or name it in SEQTO_TVM_WORKER",
                  program));
}

class TvmRunner : public Runner {
 public:
  TvmRunner(const TvmDevice& device, std::string name, const RunnerOptions& options, const Env& env)
      : device_(device), name_(std::move(name)), options_(options), env_(env), python_(find_tvm_python(options, env)) {
    // Servers lend themselves to one connection at a time, so all sessions share one.
    if (device_.remote()) options_.workers = 1;
    workers_ = make_worker_runner(command(), name_, options_, env_);
  }

  std::unique_ptr<Session> load(const Model& model, const SessionOptions&) override {
    return open(tvm_compile(model, device_.target, python_, options_, env_).string());
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return load(load_model(path), options);
  }
  std::unique_ptr<Session> load_observed(const Model& model, std::span<const std::string> tensors, Observer& observer,
                                         const SessionOptions& options) override {
    return host().load_observed(model, tensors, observer, options);
  }
  Model optimized(const Model& model) override { return host().optimized(model); }
  ProcessMemory memory() override { return workers_->memory(); }
  int threads() const override { return options_.threads; }
  std::string description() const override {
    std::string where = !device_.server.empty()    ? " at " + device_.server
                        : !device_.tracker.empty() ? fmt::format(" by the tracker {}", device_.tracker)
                                                   : "";
    return fmt::format("TVM {} ({}{}), quantized layers computed in float: no int8 speed-up", python_.version,
                       device_.target.kind, where);
  }

 private:
  std::vector<std::string> command() const {
    std::vector<std::string> words{
        required_executable(options_),   "worker", "--device", name_, "--kind", device_.target.kind, "--threads",
        std::to_string(options_.threads)};
    if (!device_.server.empty()) words.insert(words.end(), {"--rpc", device_.server, "--key", device_.key});
    if (!device_.tracker.empty()) words.insert(words.end(), {"--tracker", device_.tracker, "--key", device_.key});
    for (const auto& plugin : options_.tvm_plugins) words.insert(words.end(), {"--plugin", plugin});
    return words;
  }

  std::unique_ptr<Session> open(const std::string& compiled) {
    if (!device_.remote()) return workers_->load_file(compiled);
    // Who names a device that is not there should not wait long to learn it.
    double patience = connected_ ? options_.reconnect_seconds : std::min(kFirstPatience, options_.reconnect_seconds);
    auto session = std::make_unique<ReconnectingSession>([this, compiled] { return workers_->load_file(compiled); },
                                                         patience, options_.reconnect_seconds, env_);
    connected_ = true;
    return session;
  }

  static constexpr double kFirstPatience = 5;  // seconds

  Runner& host() {
    std::lock_guard lock(mutex_);
    if (!host_) {
      RunnerOptions here = options_;
      here.isolated = false;
      host_ = make_runner("cpu", here, env_);
    }
    return *host_;
  }

  TvmDevice device_;
  std::string name_;
  RunnerOptions options_;
  Env env_;
  TvmPython python_;
  std::unique_ptr<Runner> workers_;
  std::atomic<bool> connected_ = false;  // it was, once
  std::mutex mutex_;
  std::unique_ptr<Runner> host_;  // made when it is needed
};

}  // namespace

std::unique_ptr<Runner> make_tvm_runner(const TvmDevice& device, const std::string& name, const RunnerOptions& options,
                                        const Env& env) {
  return std::make_unique<TvmRunner>(device, name, options, env);
}

}  // namespace seqto::internal

namespace seqto {

std::string tvm_executable(const RunnerOptions& options) {
  namespace fs = std::filesystem;
  if (!options.tvm_worker.empty()) return options.tvm_worker;
  if (const char* variable = std::getenv("SEQTO_TVM_WORKER"); variable && *variable) return variable;
  std::error_code error;
  fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "seqto-tvm";
  return fs::exists(beside, error) ? beside.string() : "seqto-tvm";
}

}  // namespace seqto
