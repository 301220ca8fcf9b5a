#include "runner/tvm_runner.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/subprocess.h"
#include "runner/hosted_runner.h"
#include "runner/tvm_compile.h"
#include "runner/worker/worker_runner.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {
namespace {

std::string required_executable(const RunnerOptions& options) {
  const std::string program = tvm_executable(options);
  if (is_program(program)) return program;
  throw Error(
      Code::kUnavailable,
      fmt::format("[tvm] no program {} found; it was expected beside seqto or in PATH; make it with `./dev setup "
                  "tvm` and `./dev build`, or name it in SEQTO_TVM_WORKER",
                  program));
}

class TvmRunner : public HostedRunner {
 public:
  TvmRunner(const TvmDevice& device, std::string name, const RunnerOptions& options, const Env& env)
      : HostedRunner(options, env), device_(device), name_(std::move(name)), python_(find_tvm_python(options, env)) {
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
    return persistent([this, compiled] { return workers_->load_file(compiled); });
  }

  TvmDevice device_;
  std::string name_;
  TvmPython python_;
  std::unique_ptr<Runner> workers_;
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
