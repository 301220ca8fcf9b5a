// seqto-tvm worker: a connection to a TVM RPC server, ours or TVM's own.
#pragma once

#include <optional>
#include <string>

#include "network.h"
#include "sockets.h"

namespace seqto::on_tvm {

struct Remote {
  std::string server;   // HOST:PORT; or
  std::string tracker;  // HOST:PORT, which names a server with the key
  std::string key;
  int connect_timeout_seconds = 10;  // and what waiting for a tracker's server may take
};

// What fails because of the link throws Error{kUnavailable}; what the device says of a model, Error{kInvalidInput}.
// After the former the connection is of no use any more.
class Connection {
 public:
  // Nobody listening, another key, something else than TVM's server: Error{kUnavailable}.
  explicit Connection(const Remote& remote);

  // A compiled model on the device: uploaded unless the server has a file of this name, which tells the content.
  // Ours gives a module with "run"; nothing where the server is TVM's own.
  std::optional<ffi::Module> open(const std::string& name, const std::string& file, const Description& description);
  // The same as the library that a Network is made of.
  ffi::Module load(const std::string& name, const std::string& file);
  int mask() const { return mask_; }  // of devices of this connection
  bool broken() const { return broken_; }
  void mark_broken() { broken_ = true; }

 private:
  void upload(const std::string& name, const std::string& file);

  std::optional<ffi::Module> session_;
  int mask_ = 0;
  bool broken_ = false;
};

// Throws the runtime's error as ours, as told above. `remote`: whether a link is involved.
[[noreturn]] void rethrow(const std::exception& error, bool remote);
template <class F>
auto translated(bool remote, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow(error, remote);
  }
}

}  // namespace seqto::on_tvm
