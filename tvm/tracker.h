// seqto-tvm: TVM's tracker, which knows servers by key and hands them out to one client at a time.
#pragma once

#include <string>
#include <vector>

#include "sockets.h"

namespace seqto::on_tvm {

// A server as a tracker hands it out; `key` is good for one connection.
struct Lent {
  Address address;
  std::string key;
};

class Tracker {
 public:
  // Throws Error{kUnavailable} when nobody listens there, or something that is not TVM's tracker.
  explicit Tracker(const Address& address);

  // Waits for a server of this key to be free, so many seconds. Throws Error{kUnavailable}.
  Lent request(const std::string& key, int timeout_seconds);

  // For servers: offers this one. `host` is how clients reach it; empty: the address that the tracker sees.
  void introduce(const std::string& key, const std::string& host, int port);
  void offer(const std::string& key, const std::string& host, int port, const std::string& match_key);
  // The match keys of offers that nobody has taken.
  std::vector<std::string> pending();

 private:
  std::string ask(const std::string& message);
  Address address_;
  Socket socket_;
};

// `key` and a random number, which makes it good for one connection.
std::string make_match_key(const std::string& key);

}  // namespace seqto::on_tvm
