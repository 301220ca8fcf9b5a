#include "sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace seqto::on_tvm {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& why, const char* what_to_do) {
  throw Error(Code::kUnavailable, "[rpc] " + what + ": " + why + "; " + what_to_do);
}

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Resolved resolve(const Address& address, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  std::string port = std::to_string(address.port);
  if (int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found))
    fail(address.host, ::gai_strerror(error), "a host's name or number was expected");
  return {found, &::freeaddrinfo};
}

// 0, or the errno of the failure.
int connect_within(int fd, const addrinfo& to, int timeout_seconds) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  if (::connect(fd, to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd state{fd, POLLOUT, 0};
    if (::poll(&state, 1, timeout_seconds * 1000) <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return error;
  }
  ::fcntl(fd, F_SETFL, 0);
  return 0;
}

}  // namespace

Address parse_address(const std::string& text) {
  size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
    const char* end = text.data() + text.size();
    auto [last, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && last == end && address.port > 0 && address.port < 65536 && !address.host.empty())
      return address;
  }
  throw Error(Code::kUsage, "[rpc] '" + text + "' found; HOST:PORT expected, as in 127.0.0.1:9090");
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

Socket Socket::connect(const Address& address, int timeout_seconds) {
  Resolved found = resolve(address, 0);
  int error = 0;
  for (const addrinfo* to = found.get(); to; to = to->ai_next) {
    Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    error = connect_within(socket.fd_, *to, timeout_seconds);
    if (error) continue;
    int one = 1;
    ::setsockopt(socket.fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return socket;
  }
  fail(address.host + ":" + std::to_string(address.port), std::strerror(error), "a server that listens was expected");
}

Socket Socket::listen(const Address& address) {
  Resolved found = resolve(address, AI_PASSIVE);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int one = 1;
  ::setsockopt(socket.fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(socket.fd_, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.fd_, 16) != 0)
    fail(address.host + ":" + std::to_string(address.port), std::strerror(errno), "choose another --port");
  return socket;
}

int Socket::port() const {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

Socket Socket::accept() const {
  Socket socket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  int one = 1;
  if (socket) ::setsockopt(socket.fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return socket;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Socket::set_timeout(int seconds) const {
  timeval limit{seconds, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void Socket::keep_alive() const {
  int on = 1, idle_seconds = 10, between_seconds = 5, probes = 3;
  ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPINTVL, &between_seconds, sizeof between_seconds);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void Socket::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("sending", std::strerror(errno), "the other end has to stay");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

std::string Socket::receive(size_t size) const {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    ssize_t n = ::recv(fd_, bytes.data() + done, size - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("receiving", errno == EAGAIN ? "no answer in time" : std::strerror(errno), "try again");
    if (n == 0) fail("receiving", "the other end closed the connection", "is it a TVM server with this key?");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

void Socket::send_number(int32_t value) const { send({reinterpret_cast<const char*>(&value), sizeof value}); }

int32_t Socket::receive_number() const {
  int32_t value = 0;
  std::memcpy(&value, receive(sizeof value).data(), sizeof value);
  return value;
}

void Socket::send_text(std::string_view text) const {
  send_number(static_cast<int32_t>(text.size()));
  send(text);
}

std::string Socket::receive_text(int32_t limit) const {
  int32_t size = receive_number();
  if (size < 0 || size > limit)
    fail("receiving", "a text of " + std::to_string(size) + " bytes", "is it a TVM server?");
  return receive(static_cast<size_t>(size));
}

}  // namespace seqto::on_tvm
