// seqto-tvm serve: a TVM RPC server without Python. What connects may run any code here: see docs/guide/devices.md.
#pragma once

#include <string>
#include <vector>

#include "sockets.h"

namespace seqto::on_tvm {

struct ServeOptions {
  Address address{"127.0.0.1", 9090};  // port 0: any that is free; told on stdout
  // Addresses other machines can reach are refused without this: the protocol knows neither password nor encryption.
  bool expose = false;
  std::string key = "seqto";
  std::string tracker;       // HOST:PORT of a tracker to offer this server to; empty: none
  std::string tracker_host;  // how clients reach this server; empty: the address that the tracker sees
  std::string folder;        // for what clients upload; empty: a temporary one, removed at the end
};

// Serves until SIGTERM, SIGINT or SIGHUP, each connection in a process of its own; with a tracker, one at a time.
// Throws Error{kUsage} or Error{kUnavailable}.
void serve(const ServeOptions& options);

}  // namespace seqto::on_tvm
