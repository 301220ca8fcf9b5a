#include "runner/runtimes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "runner/hosted_runner.h"
#include "runner/link.h"
#include "runner/providers.h"
#include "runner/tvm_device.h"
#include "runner/worker/repeated_session.h"
#include "runner/worker/worker_runner.h"
#include "seqto/error.h"

#ifndef SEQTO_DEFAULT_RUNTIMES
#define SEQTO_DEFAULT_RUNTIMES ""
#endif

namespace seqto::internal {

std::string_view runtime_worker_py();  // the scripts, embedded
std::string_view runtime_worker_mjs();

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr char kUnoptimized[] = "cpu:unoptimized";

struct Runtime {
  std::string_view name;  // "cpu@": a version follows
  std::string_view file;  // of its folder: who it is run by; its name may go on
  // Null: the file is a release of ONNX Runtime, and what stands before '@' its device.
  Words (*command)(const std::string& name, const std::string& file);
  std::string_view install;  // {0}: its folder, {1}: the version asked for
};

// Isolated from the user's folder and environment: what is imported is what the folder of the runtime holds.
Words by_python(const std::string& name, const std::string& python) {
  return {python, "-I", "-c", std::string(runtime_worker_py()), name};
}
Words by_node(const std::string&, const std::string& module) {
  return {"node", "--input-type=module", "-e", std::string(runtime_worker_mjs()), "--", module};
}

constexpr Runtime kRuntimes[] = {
    {"openvino", "bin/python", by_python,
     "python3 -m venv {0} && {0}/bin/pip install numpy && {0}/bin/pip install --no-deps openvino"},
    {"opencv", "bin/python", by_python, "python3 -m venv {0} && {0}/bin/pip install opencv-python-headless"},
    {"web", "node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs", by_node,
     "npm install --prefix {0} onnxruntime-web (and Node.js on PATH)"},
    // The library in the wheel is the same for all Pythons.
    {"cpu@", "onnxruntime/capi/libonnxruntime.so", nullptr,
     "pip install --no-deps --only-binary=:all: --python-version 3.12 --target {0} 'onnxruntime=={1}.*'"},
    {"openvino@", "onnxruntime/capi/libonnxruntime.so", nullptr,
     "pip install --no-deps --only-binary=:all: --python-version 3.12 --target {0} 'onnxruntime-openvino=={1}.*'"},
};

const Runtime* find_runtime(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find('@') + (name.find('@') != name.npos));
  const auto* const found = std::ranges::find(kRuntimes, kind, &Runtime::name);
  return found == std::end(kRuntimes) ? nullptr : found;
}

// The file itself, or one whose name begins so: libraries have their version behind it.
std::optional<std::string> find_file(const fs::path& folder, std::string_view file) {
  const fs::path wanted = folder / file;
  std::error_code error;
  if (fs::exists(wanted, error)) return wanted.string();
  for (const auto& entry : fs::directory_iterator(wanted.parent_path(), error))
    if (entry.path().filename().string().starts_with(wanted.filename().string() + ".")) return entry.path().string();
  return {};
}

std::string required_file(const std::string& name, const Runtime& runtime) {
  const fs::path folder = fs::path(runtimes_folder()) / name;
  if (auto found = find_file(folder, runtime.file)) return *found;
  const std::string version = name.substr(runtime.name.size());
  // Of releases it brings one or two.
  const char* const setup = runtime.command ? " in a checkout `./dev setup runtimes` brings it, else" : " install it:";
  throw Error(
      Code::kUnavailable,
      fmt::format("[runtimes] {} is not installed: {} found nowhere in {};{}\n  {}\nSEQTO_RUNTIMES names another "
                  "folder than {}",
                  name, runtime.file, folder.string(), setup,
                  fmt::format(fmt::runtime(runtime.install), folder.string(), version), runtimes_folder()));
}

// The folder of the model lasts as long as a worker may have to read it again.
class SessionOfFolder : public RepeatedSession {
 public:
  SessionOfFolder(std::shared_ptr<const TemporaryFolder> folder, const Open& load)
      : RepeatedSession([folder = std::move(folder), load] { return load(); }) {
    open();
  }

 private:
  void repeat(const std::function<void()>& work) override { work(); }
};

// A worker that reads models from files alone, and whose runtime may be told to compute a graph as it is written.
class RuntimeRunner : public HostedRunner {
 public:
  RuntimeRunner(std::unique_ptr<Runner> workers, SessionOptions::Optimization optimization,
                const RunnerOptions& options, const Env& env)
      : HostedRunner(options, env), workers_(std::move(workers)), optimization_(optimization) {}

  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    auto folder = std::make_shared<const TemporaryFolder>();
    const std::string path = (folder->path / "model.onnx").string();
    save_model(model, path);
    return std::make_unique<SessionOfFolder>(std::move(folder), [this, path, options] { return open(path, options); });
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    const Model model = load_model(path);
    // Not every runtime finds weights in other files.
    return model.external_files.empty() ? open(path, options) : load(model, options);
  }
  ProcessMemory memory() override { return workers_->memory(); }
  int threads() const override { return workers_->threads(); }
  std::string description() const override {
    return workers_->description() +
           (optimization_ == SessionOptions::Optimization::kNone ? ", optimizations off" : "");
  }

 private:
  std::unique_ptr<Session> open(const std::string& path, SessionOptions options) {
    if (optimization_ == SessionOptions::Optimization::kNone) options.optimization = optimization_;
    return workers_->load_file(path, options);
  }

  std::unique_ptr<Runner> workers_;
  SessionOptions::Optimization optimization_;
};

std::unique_ptr<Runner> driven(const std::string& name, Words command, const RunnerOptions& options, const Env& env) {
  if (!is_program(command.front()))
    throw Error(Code::kUnavailable, fmt::format("[runtimes] {} runs under {}, which is not there; it was expected on "
                                                "PATH; install it",
                                                name, command.front()));
  command.insert(command.end(), {"--threads", std::to_string(options.threads)});
  return std::make_unique<RuntimeRunner>(make_worker_runner(std::move(command), name, options, env),
                                         SessionOptions::Optimization::kAll, options, env);
}

}  // namespace

std::string runtimes_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (std::string own = variable("SEQTO_RUNTIMES"); !own.empty()) return own;
  std::error_code error;
  if (std::string built_in = SEQTO_DEFAULT_RUNTIMES; !built_in.empty() && fs::exists(built_in, error)) return built_in;
  if (std::string data = variable("XDG_DATA_HOME"); !data.empty()) return data + "/seqto/runtimes";
  return variable("HOME") + "/.local/share/seqto/runtimes";
}

bool is_device(const std::string& name) {
  return name == "cpu" || find_provider(name) || is_tvm_device(name) || is_link(name);
}

bool is_runtime(const std::string& name) {
  return name == kUnoptimized || find_runtime(name) || is_device(name) ||
         (!name.empty() && fs::exists(fs::path(runtimes_folder()) / name / "worker"));
}

std::unique_ptr<Runner> make_runtime(const std::string& name, const RunnerOptions& options, const Env& env) {
  RunnerOptions isolated = options;
  isolated.isolated = true;
  if (name == kUnoptimized)
    return std::make_unique<RuntimeRunner>(make_runner("cpu", isolated, env), SessionOptions::Optimization::kNone,
                                           options, env);
  if (const Runtime* runtime = find_runtime(name)) {
    const std::string file = required_file(name, *runtime);
    if (runtime->command) return driven(name, runtime->command(name, file), options, env);
    isolated.library = file;
    return make_runner(name.substr(0, name.find('@')), isolated, env);
  }
  if (is_device(name)) return make_runner(name, isolated, env);
  const std::string program = (fs::path(runtimes_folder()) / name / "worker").string();
  if (::access(program.c_str(), X_OK) == 0) return driven(name, {program, "--device", name}, options, env);
  throw Error(Code::kUnavailable, fmt::format("[runtimes] runtime '{}' found; openvino, opencv, web, cpu@VERSION, "
                                              "openvino@VERSION, {}, a device as --device "
                                              "takes it, or a worker {} expected",
                                              name, kUnoptimized, program));
}

}  // namespace seqto::internal

std::function<std::string(const seqto::Model&)> seqto::refusal_by(const std::string& runtime,
                                                                  const RunnerOptions& options, const Env& env) {
  if (runtime.empty() || runtime == "cpu") return {};
  std::shared_ptr<Runner> runner;
  try {
    runner = internal::make_runtime(runtime, options, env);
  } catch (const Error& error) {
    if (error.code() != Code::kUnavailable) throw;
    return {};
  }
  return [runner](const Model& model) -> std::string {
    try {
      runner->load(model);
      return {};
    } catch (const DeviceGone&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
      return error.what();
    }
  };
}
