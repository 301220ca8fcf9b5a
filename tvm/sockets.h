// seqto-tvm: TCP, as TVM's RPC and its tracker speak it. Integers are little-endian, 32 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "seqto/error.h"

namespace seqto::on_tvm {

// TVM's numbers of its protocols.
inline constexpr int32_t kRpcMagic = 0xff271, kRpcMismatch = kRpcMagic + 2, kTrackerMagic = 0x2f271;

struct Address {
  std::string host;
  int port = 0;
};
Address parse_address(const std::string& text);  // "HOST:PORT", "[::1]:9090". Throws Error{kUsage}.
bool is_loopback(const std::string& host);

// A connected or listening socket. What fails throws Error{kUnavailable}.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  static Socket connect(const Address& address, int timeout_seconds);
  static Socket listen(const Address& address);  // port 0: any that is free

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int port() const;  // that it listens on
  Socket accept() const;
  void close();

  // Limits each send and receive; 0: none.
  void set_timeout(int seconds) const;
  // Notices within half a minute that the other end is gone without a word.
  void keep_alive() const;
  void send(std::string_view bytes) const;
  std::string receive(size_t size) const;
  void send_number(int32_t value) const;
  int32_t receive_number() const;
  // A number of bytes, then the bytes. Longer ones than `limit` are an error.
  void send_text(std::string_view text) const;
  std::string receive_text(int32_t limit) const;

 private:
  int fd_;
};

}  // namespace seqto::on_tvm
