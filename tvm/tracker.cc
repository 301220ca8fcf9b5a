#include "tracker.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/json.h>

#include <random>

namespace seqto::on_tvm {
namespace {

namespace ffi = ::tvm::ffi;
namespace json = ::tvm::ffi::json;

constexpr int kPut = 3, kRequest = 4, kUpdateInfo = 5, kPendingKeys = 7, kSuccess = 0;
constexpr int kSeconds = 10;  // that an answer may take which needs no waiting
constexpr int32_t kMostBytes = 1 << 20;

// A host, or null.
json::Value host_value(const std::string& host) {
  if (host.empty()) return nullptr;
  return ffi::String(host);
}

std::string text_of(json::Array message) { return std::string(json::Stringify(std::move(message))); }

}  // namespace

Tracker::Tracker(const Address& address) : address_(address), socket_(Socket::connect(address, kSeconds)) {
  socket_.set_timeout(kSeconds);
  socket_.keep_alive();
  socket_.send_number(kTrackerMagic);
  if (socket_.receive_number() != kTrackerMagic)
    throw Error(Code::kUnavailable, "[rpc] " + address.host + ":" + std::to_string(address.port) +
                                        " is no TVM tracker; start one with python -m tvm.exec.rpc_tracker");
}

std::string Tracker::ask(const std::string& message) {
  socket_.send_text(message);
  return socket_.receive_text(kMostBytes);
}

Lent Tracker::request(const std::string& key, int timeout_seconds) {
  constexpr int kPriority = 1;
  socket_.set_timeout(timeout_seconds);
  std::string text;
  try {
    text = ask(text_of({kRequest, ffi::String(key), ffi::String(""), kPriority}));
    auto answer = json::Parse(text).cast<json::Array>();
    if (answer[0].cast<int>() != kSuccess) throw Error(Code::kUnavailable, text);
    auto server = answer[1].cast<json::Array>();
    return {{server[0].cast<std::string>(), server[1].cast<int>()}, server[2].cast<std::string>()};
  } catch (const std::exception& error) {
    throw Error(Code::kUnavailable, "[rpc] the tracker has no free server with key '" + key + "' within " +
                                        std::to_string(timeout_seconds) + " s (" + error.what() +
                                        "); python -m tvm.exec.query_rpc_tracker shows what it has");
  }
}

void Tracker::introduce(const std::string& key, const std::string& host, int port) {
  json::Object info;
  info.Set(ffi::String("key"), ffi::String("server:" + key));
  info.Set(ffi::String("addr"), json::Array{host_value(host), port});
  ask(text_of({kUpdateInfo, info}));
}

void Tracker::offer(const std::string& key, const std::string& host, int port, const std::string& match_key) {
  ask(text_of({kPut, ffi::String(key), json::Array{port, ffi::String(match_key)}, host_value(host)}));
}

std::vector<std::string> Tracker::pending() {
  std::vector<std::string> keys;
  try {
    for (const auto& key : json::Parse(ask(text_of({kPendingKeys}))).cast<json::Array>())
      keys.push_back(key.cast<std::string>());
  } catch (const ffi::Error& error) {
    throw Error(Code::kUnavailable, std::string("[rpc] the tracker's answer makes no sense: ") + error.what());
  }
  return keys;
}

std::string make_match_key(const std::string& key) {
  std::random_device random;
  return key + ":0." + std::to_string(random()) + std::to_string(random());
}

}  // namespace seqto::on_tvm
