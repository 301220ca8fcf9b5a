// An ONNX Runtime that aborts, ends, spins, eats memory or prints when it is told to, and is the real one otherwise.
//
// What it does comes from the model: somewhere in its bytes stands "misbehave_<when>_<what>", <when> load or run,
// <what> abort, exit, spin or allocate; as the graph's name, say. Models that cannot be changed are named by how many
// times "DequantizeLinear" stands in them: SEQTO_MISBEHAVE="run:abort:14,load:spin:12".
// The real library is SEQTO_REAL_ORT_LIBRARY, else the build's own.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>

namespace {

OrtApi api;  // the real one's, with three functions replaced
const OrtApi* real = nullptr;
std::mutex mutex;
std::map<const OrtSession*, std::string> deeds;  // of sessions that misbehave in a run

[[noreturn]] void spin() {
  for (std::atomic<bool> forever = true; forever;) {
  }
  std::abort();
}

// Up to 8 GB, so that a machine survives a test that fails.
void allocate() {
  constexpr size_t kPiece = size_t{16} << 20;
  for (int i = 0; i < 512; ++i) {
    std::memset(std::malloc(kPiece), i + 1, kPiece);
    ::usleep(1000);
  }
}

void misbehave(const std::string& what) {
  if (what == "abort") std::abort();
  if (what == "exit") ::_exit(3);
  if (what == "spin") spin();
  if (what == "print") std::puts("printed by a library"), std::fflush(stdout);
  if (what == "allocate") allocate();
}

size_t count(std::string_view bytes, std::string_view word) {
  size_t n = 0;
  for (size_t at = bytes.find(word); at != std::string_view::npos; at = bytes.find(word, at + word.size())) ++n;
  return n;
}

// What to do with this model at the moment `when`; empty: nothing.
std::string deed(std::string_view bytes, const std::string& when) {
  for (const char* what : {"abort", "exit", "spin", "allocate", "print"})
    if (bytes.find("misbehave_" + when + "_" + what) != std::string_view::npos) return what;
  const char* rules = std::getenv("SEQTO_MISBEHAVE");
  std::istringstream list(rules ? rules : "");
  for (std::string rule; std::getline(list, rule, ',');) {
    std::istringstream parts(rule);
    std::string at, what, number;
    std::getline(parts, at, ':');
    std::getline(parts, what, ':');
    std::getline(parts, number);
    if (at == when && std::stoul(number) == count(bytes, "DequantizeLinear")) return what;
  }
  return {};
}

OrtStatusPtr ORT_API_CALL create_session(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* o,
                                         OrtSession** session) noexcept {
  std::string_view bytes(static_cast<const char*>(data), size);
  misbehave(deed(bytes, "load"));
  OrtStatusPtr status = real->CreateSessionFromArray(env, data, size, o, session);
  if (std::string what = deed(bytes, "run"); !status && !what.empty()) {
    std::lock_guard lock(mutex);
    deeds[*session] = what;
  }
  return status;
}

OrtStatusPtr ORT_API_CALL run(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                              const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                              size_t output_count, OrtValue** outputs) noexcept {
  std::string what;
  {
    std::lock_guard lock(mutex);
    if (auto it = deeds.find(session); it != deeds.end()) what = it->second;
  }
  misbehave(what);
  return real->Run(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
}

void ORT_API_CALL release_session(OrtSession* session) noexcept {
  {
    std::lock_guard lock(mutex);
    deeds.erase(session);
  }
  real->ReleaseSession(session);
}

const OrtApiBase* real_base() {
  static const OrtApiBase* base = [] {
    const char* named = std::getenv("SEQTO_REAL_ORT_LIBRARY");
    void* library = ::dlopen(named ? named : SEQTO_DEFAULT_ORT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"))();
  }();
  return base;
}

const OrtApi* ORT_API_CALL get_api(uint32_t version) noexcept {
  real = real_base()->GetApi(version);
  if (!real) return nullptr;
  api = *real;
  api.CreateSessionFromArray = create_session;
  api.Run = run;
  api.ReleaseSession = release_session;
  return &api;
}

const char* ORT_API_CALL get_version() noexcept { return real_base()->GetVersionString(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const OrtApiBase* OrtGetApiBase() noexcept {
  static const OrtApiBase base{get_api, get_version};
  return &base;
}
