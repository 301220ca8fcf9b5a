#include "runner/tvm_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/json.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

[[noreturn]] void usage(const std::string& found) {
  throw Error(
      Code::kUsage,
      fmt::format("[tvm] '{}' found; tvm:TARGET, tvm+rpc:HOST:PORT:KEY:TARGET or tvm+tracker:HOST:PORT:KEY:TARGET "
                  "expected, where TARGET is llvm, cuda, opencl or more of it, as in 'opencl -device=mali "
                  "-mtriple=aarch64-linux-android'",
                  found));
}

// Values are numbers where they look like some, as TVM's options want them; lists go by commas.
json value_of(const std::string& key, const std::string& text) {
  if (key == "mattr" || key == "keys" || key == "libs") {
    json list = json::array();
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) list.push_back(part);
    return list;
  }
  bool digits = !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), ::isdigit);
  return digits ? json(std::stoll(text)) : json(text);
}

json from_words(const std::string& text) {
  std::istringstream words(text);
  json target, host;
  std::string kind;
  if (!(words >> kind) || kind.front() == '-') usage(text);
  target["kind"] = kind;
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (word.front() != '-' || equals == std::string::npos || equals < 2) usage(text);
    std::string key = word.substr(1, equals - 1);
    bool of_cpu = key == "mtriple" || key == "mcpu" || key == "mattr";
    (of_cpu && kind != "llvm" ? host : target)[key] = value_of(key, word.substr(equals + 1));
  }
  if (kind != "llvm") {
    host["kind"] = "llvm";
    target["host"] = host;
  }
  return target;
}

}  // namespace

TvmTarget parse_tvm_target(const std::string& text) {
  json target = text.starts_with('{') ? parse_json_if_any(text) : from_words(text);
  if (!target.is_object() || !target.contains("kind") || !target["kind"].is_string()) usage(text);
  const json& host = target.contains("host") ? target["host"] : target;
  std::string triple = host.is_object() ? host.value("mtriple", "") : "";
  return {target["kind"].get<std::string>(), target.dump(), triple};
}

bool is_tvm_device(const std::string& device) { return device.starts_with("tvm:") || device.starts_with("tvm+"); }

TvmDevice parse_tvm_device(const std::string& device) {
  size_t colon = device.find(':');
  std::string word = device.substr(0, colon), rest = colon == std::string::npos ? "" : device.substr(colon + 1);
  TvmDevice result;
  if (word == "tvm+rpc" || word == "tvm+tracker") {
    // A host may be an IPv6 number in brackets, and a target holds colons as JSON.
    size_t host_end = rest.starts_with('[') ? rest.find(']') : 0;
    if (host_end == std::string::npos) usage(device);
    size_t port = rest.find(':', host_end), key = port == std::string::npos ? port : rest.find(':', port + 1);
    size_t target = key == std::string::npos ? key : rest.find(':', key + 1);
    if (target == std::string::npos || port == 0 || key == port + 1 || target == key + 1) usage(device);
    (word == "tvm+rpc" ? result.server : result.tracker) = rest.substr(0, key);
    result.key = rest.substr(key + 1, target - key - 1);
    rest = rest.substr(target + 1);
  } else if (word != "tvm") {
    usage(device);
  }
  if (rest.empty()) usage(device);
  result.target = parse_tvm_target(rest);
  return result;
}

}  // namespace seqto::internal
