#include "runner/tvm_compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/run_command.h"
#include "model/op_traits.h"
#include "seqto/error.h"

#ifndef SEQTO_DEFAULT_TVM_PYTHON
#define SEQTO_DEFAULT_TVM_PYTHON ""
#endif

namespace seqto::internal {

std::string_view tvm_compile_py();  // the script, embedded

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What the script says after "error: ", else its last line.
std::string reason(const Finished& finished) {
  std::string text = finished.errors;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  size_t begin = text.rfind("error: ");
  if (begin == 0 || (begin != std::string::npos && text[begin - 1] == '\n')) return text.substr(begin + 7);
  return last_line(std::move(text));
}

std::vector<std::string> pythons(const RunnerOptions& options) {
  if (!options.tvm_python.empty()) return {options.tvm_python};
  if (const char* variable = std::getenv("SEQTO_TVM_PYTHON"); variable && *variable) return {variable};
  std::vector<std::string> found;
  if (std::string built_in = SEQTO_DEFAULT_TVM_PYTHON; !built_in.empty() && fs::exists(built_in))
    found.push_back(built_in);
  found.push_back("python3");
  return found;
}

// With every dimension of the inputs known.
Model with_static_inputs(Model model) {
  std::set<std::string> weights;
  for (const auto& w : model.graph.initializers) weights.insert(w.name);
  for (auto& input : model.graph.inputs) {
    if (weights.contains(input.name) || !input.shape) continue;
    for (auto& dimension : *input.shape)
      if (dimension.value < 0) {
        dimension = {1, ""};
        input.proto.clear();  // it tells the shape as well
      }
  }
  return model;
}

// Removes what has not been used for a day, the oldest first, while the cache is large.
void shrink_cache(const fs::path& cache) {
  constexpr uintmax_t kMostBytes = uintmax_t{4} << 30;
  constexpr auto kUnused = std::chrono::hours(24);
  struct Entry {
    fs::file_time_type used;
    fs::path path;
    uintmax_t bytes;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    uintmax_t bytes = fs::file_size(entry.path() / "model.so", error);
    if (error) bytes = 0;
    entries.push_back({fs::last_write_time(entry.path(), error), entry.path(), bytes});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    bool torn = entry.path.filename().string().find(".tmp-") != std::string::npos;  // of a process that was killed
    if (fs::file_time_type::clock::now() - entry.used < kUnused || (!torn && total <= kMostBytes)) continue;
    total -= entry.bytes;
    fs::remove_all(entry.path, error);
  }
}

// Moves a finished folder to its place; another process may have been faster.
void publish(const fs::path& made, const fs::path& place) {
  std::error_code error;
  fs::rename(made, place, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove_all(made, ignored);
  if (!fs::exists(place / "model.json"))
    throw Error(Code::kUnavailable,
                fmt::format("[compile] {}: {}; make room or set XDG_CACHE_HOME", place.string(), error.message()));
}

}  // namespace

TvmPython find_tvm_python(const RunnerOptions& options, const Env& env) {
  constexpr double kSeconds = 60;
  constexpr const char* kAsk =
      "import importlib.metadata as m; m.version('onnx'); print(m.version('apache-tvm'), end='')";
  std::string tried;
  for (const auto& python : pythons(options)) {
    try {
      Finished answer = run_command({python, "-c", kAsk}, kSeconds, env, "compile");
      if (answer.good) return {python, answer.output};
      tried += fmt::format("\n  {}: {}", python, reason(answer));
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
      tried += fmt::format("\n  {}: {}", python, error.what());
    }
  }
  throw Error(Code::kUnavailable,
              fmt::format("[tvm] no Python with TVM and onnx found; run tools/setup.sh tvm, or pip install "
                          "'apache-tvm[rpc]' onnx and set SEQTO_TVM_PYTHON to that python. Tried:{}",
                          tried));
}

namespace {

void require_tvm_form(const Model& model) {
  for (const auto& node : model.graph.nodes) {
    bool foreign = !node.domain.empty() && node.domain != "ai.onnx";
    if (!foreign && !node.op_type.starts_with("QLinear") && !is_conv_integer(node)) continue;
    throw Error(
        Code::kInvalidInput,
        fmt::format("[tvm] layer '{}' is {}{}{}; TVM takes quantized layers in QDQ form with operators of ai.onnx "
                    "only; quantize with QuantizeLinear/DequantizeLinear pairs (QDQ, the default)",
                    node.name, node.domain, foreign ? "." : "", node.op_type));
  }
  for (const auto& input : model.graph.free_inputs()) {
    bool open = !input.shape;
    for (size_t i = 1; input.shape && i < input.shape->size(); ++i) open |= (*input.shape)[i].value < 0;
    if (open)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[tvm] input '{}' has a shape that is not fixed; TVM compiles for one shape, and only the "
                      "first dimension may be open (it becomes 1); fix the others in the model",
                      input.name));
  }
}

fs::path tvm_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "seqto" / "tvm";
  const char* home = std::getenv("HOME");
  return (home && *home ? fs::path(home) / ".cache" : fs::temp_directory_path()) / "seqto" / "tvm";
}

}  // namespace

fs::path tvm_compile(const Model& model, const TvmTarget& target, const TvmPython& python, const RunnerOptions& options,
                     const Env& env) {
  require_tvm_form(model);
  Model fixed = with_static_inputs(model);
  fs::path cache = tvm_cache_folder();
  const char* ndk = std::getenv("TVM_NDK_CC");
  fs::path place = cache / sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}", sha256_hex(serialize(fixed)), target.json,
                                                  python.version, ndk ? ndk : "", tvm_compile_py()));
  std::error_code error;
  if (fs::exists(place / "model.json", error)) {
    fs::last_write_time(place, fs::file_time_type::clock::now(), error);  // used today
    return place;
  }
  check_model(fixed);  // its words are clearer than TVM's
  make_writable_folder(cache);
  shrink_cache(cache);
  TemporaryFolder work;
  save_model(fixed, work.path / "model.onnx");
  write_file_atomic(work.path / "compile.py", tvm_compile_py());
  fs::path made = place;
  made += ".tmp-" + work.path.filename().string();
  fs::create_directory(made, error);
  Finished finished = run_command({python.path, "-B", (work.path / "compile.py").string(),
                                   (work.path / "model.onnx").string(), made.string(), target.json},
                                  options.compile_timeout_seconds, env, "compile");
  if (finished.good) {
    publish(made, place);
    return place;
  }
  fs::remove_all(made, error);
  if (finished.late)
    throw Error(Code::kInvalidInput, fmt::format("[compile] TVM's compiler was not done within {:g} s and was stopped; "
                                                 "give it more with --compile-timeout",
                                                 options.compile_timeout_seconds));
  bool crashed = finished.how.starts_with("was killed");
  throw Error(Code::kInvalidInput,
              crashed ? fmt::format("[compile] TVM's compiler {} (target {})", finished.how, target.json)
                      : fmt::format("[compile] TVM does not take the model: {}", reason(finished)));
}

}  // namespace seqto::internal
