#include "connection.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "tracker.h"

namespace seqto::on_tvm {
namespace {

// A model loads within this, and travels no slower.
constexpr double kLoadSeconds = 60, kSlowestBytesPerSecond = 50e3;

constexpr const char* kDeviceSaid = "RPCError";  // the kind of errors that were thrown on the device

// TVM's client waits for ever for the greeting of something that keeps silent: asked first, on a connection of its own.
void require_server(const Address& address, const std::string& key, int timeout_seconds) {
  std::string where = address.host + ":" + std::to_string(address.port);
  Socket probe = Socket::connect(address, timeout_seconds);
  probe.set_timeout(timeout_seconds);
  probe.send_number(kRpcMagic);
  probe.send_text("client:" + key + ".probe");  // a key that no server has
  if (int32_t answer = probe.receive_number(); answer != kRpcMismatch)
    throw Error(Code::kUnavailable,
                "[rpc] what listens at " + where + " is no TVM RPC server; start one with seqto device serve");
}

// Ends the process when a step is not done in time: TVM's client waits for ever, and cannot be woken. Who drives this
// worker starts another.
class Deadline {
 public:
  Deadline(const char* what, double seconds) : thread_([this, what, seconds] { watch(what, seconds); }) {}
  ~Deadline() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void watch(const char* what, double seconds) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; })) return;
    std::fprintf(stderr, "seqto-tvm: %s took longer than %.0f s\n", what, seconds);
    ::_exit(1);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

double load_seconds(const std::string& file) {
  std::error_code error;
  auto bytes = std::filesystem::file_size(file, error);
  return kLoadSeconds + (error ? 0 : static_cast<double>(bytes) / kSlowestBytesPerSecond);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The message without the stack of the device's program: what stands behind the last "Error: ".
std::string device_message(const ffi::Error& error) {
  std::string text = error.message();
  constexpr std::string_view kHead = "RPCError: Error caught from RPC call:\n";
  if (text.rfind(kHead, 0) == 0) text.erase(0, kHead.size());
  if (size_t last = text.rfind("Error: "); last != std::string::npos) {
    size_t line = text.rfind('\n', last);
    text.erase(0, line == std::string::npos ? 0 : line + 1);
  }
  return text.substr(0, 500);
}

}  // namespace

void rethrow(const std::exception& error, bool remote) {
  auto* of_tvm = dynamic_cast<const ffi::Error*>(&error);
  if (of_tvm && (!remote || of_tvm->kind() == kDeviceSaid))
    throw Error(Code::kInvalidInput, "[tvm] the runtime does not take the model: " + device_message(*of_tvm));
  // What makes no sense on the way ends as a length that no memory has, and the like.
  std::string text = of_tvm ? of_tvm->message() : error.what();
  throw Error(remote ? Code::kUnavailable : Code::kInternal, "[rpc] the link to the device broke: " + first_line(text));
}

Connection::Connection(const Remote& remote) {
  Address address;
  std::string key = remote.key;
  if (!remote.tracker.empty()) {
    Lent lent = Tracker(parse_address(remote.tracker)).request(remote.key, remote.connect_timeout_seconds);
    address = lent.address;
    key = lent.key;
  } else {
    address = parse_address(remote.server);
    require_server(address, key, remote.connect_timeout_seconds);
  }
  Deadline deadline("connecting", remote.connect_timeout_seconds);
  translated(true, [&] {
    try {
      session_ = global_function("rpc.Connect")(address.host, address.port, key, false).cast<ffi::Module>();
    } catch (const ffi::Error& error) {
      if (std::string(error.message()).find("matches key") == std::string::npos) throw;
      throw Error(Code::kUnavailable, "[rpc] the server at " + address.host + ":" + std::to_string(address.port) +
                                          " has another key than '" + remote.key + "'; ask with its own");
    }
    constexpr int kMask = 128;  // TVM's: device types of the n-th connection are n * 128 higher
    mask_ = (global_function("rpc.SessTableIndex")(*session_).cast<int>() + 1) * kMask;
  });
}

std::optional<ffi::Module> Connection::open(const std::string& name, const std::string& file,
                                            const Description& description) {
  Deadline deadline("loading", load_seconds(file));
  ffi::Function open_remote;
  try {
    auto found = (*session_)->GetFunction("seqto.open");
    if (!found || *found == nullptr) return std::nullopt;
    open_remote = *found;
  } catch (const ffi::Error& error) {
    if (error.kind() != kDeviceSaid) rethrow(error, true);
    return std::nullopt;
  }
  try {
    return open_remote(name, description.text).cast<ffi::Module>();
  } catch (const ffi::Error& error) {
    if (error.kind() != kDeviceSaid) rethrow(error, true);
  }
  return translated(true, [&] {
    upload(name, file);
    return open_remote(name, description.text).cast<ffi::Module>();
  });
}

ffi::Module Connection::load(const std::string& name, const std::string& file) {
  Deadline deadline("loading", load_seconds(file));
  auto load_remote = [&] { return global_function("rpc.LoadRemoteModule")(*session_, name).cast<ffi::Module>(); };
  try {
    return load_remote();
  } catch (const ffi::Error& error) {
    if (error.kind() != kDeviceSaid) rethrow(error, true);
  }
  return translated(true, [&] {
    upload(name, file);
    return load_remote();
  });
}

void Connection::upload(const std::string& name, const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (bytes.empty())
    throw Error(Code::kInvalidInput, "[tvm] " + file + " cannot be read; a compiled model was expected");
  function_of(*session_, "tvm.rpc.server.upload")(name, ffi::Bytes(bytes));
}

}  // namespace seqto::on_tvm
