#include "orchestrator/hub/hub_manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "orchestrator/hub/unpack.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using internal::lower;
using nlohmann::json;

// One entry; every complaint names the manifest and the entry.
class Entry {
 public:
  Entry(const json& entry, int64_t index, const std::string& source) : entry_(entry), index_(index), source_(source) {
    if (!entry.is_object()) fail("no object");
    if (entry.contains("metadata") && entry["metadata"].is_object()) metadata_ = entry["metadata"];
  }

  HubModel model() const {
    HubModel m{.name = text(entry_, "model"), .index = index_};
    if (m.name.empty()) fail("no name");
    if (entry_.contains("opset_version") && entry_["opset_version"].is_number_integer())
      m.opset = entry_["opset_version"].get<int64_t>();
    m.file = file(text(entry_, "model_path"), "model_sha", "model_bytes");
    if (m.file.path.empty()) fail("no model_path");
    if (std::string path = text(metadata_, "model_with_data_path"); !path.empty())
      m.archive = file(path, "model_with_data_sha", "model_with_data_bytes");
    if (metadata_.contains("tags") && metadata_["tags"].is_array())
      for (const json& tag : metadata_["tags"])
        if (tag.is_string()) m.tags.push_back(tag.get<std::string>());
    if (metadata_.contains("io_ports") && metadata_["io_ports"].is_object()) {
      m.inputs = ports(metadata_["io_ports"], "inputs");
      m.outputs = ports(metadata_["io_ports"], "outputs");
    }
    return m;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {}: entry {} has {}; an ONNX hub manifest was expected; check --hub-manifest",
                            source_, index_, found));
  }

  static std::string text(const json& object, const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  }

  HubFile file(const std::string& path, const char* hash, const char* bytes) const {
    if (!path.empty() && !internal::safe_relative(path)) fail(fmt::format("the unsafe path '{}'", path));
    HubFile f{.path = path, .sha256 = lower(text(metadata_, hash))};
    if (!f.sha256.empty() &&
        (f.sha256.size() != 64 || f.sha256.find_first_not_of("0123456789abcdef") != std::string::npos))
      fail(fmt::format("the {} '{}', no SHA-256", hash, f.sha256));
    if (metadata_.contains(bytes) && metadata_[bytes].is_number_integer())
      f.size_bytes = std::max<int64_t>(0, metadata_[bytes].get<int64_t>());
    return f;
  }

  static std::vector<HubPort> ports(const json& io, const char* key) {
    std::vector<HubPort> ports;
    if (!io.contains(key) || !io[key].is_array()) return ports;
    for (const json& port : io[key]) {
      if (!port.is_object()) continue;
      HubPort p{.name = text(port, "name"), .type = text(port, "type")};
      if (port.contains("shape") && port["shape"].is_array())
        for (const json& dim : port["shape"])
          p.shape.push_back(dim.is_string() ? dim.get<std::string>() : dim.is_number() ? dim.dump() : "?");
      ports.push_back(std::move(p));
    }
    return ports;
  }

  const json& entry_;
  json metadata_ = json::object();
  int64_t index_;
  const std::string& source_;
};

}  // namespace

std::vector<HubModel> internal::hub_from_json(const std::string& text, const std::string& source) {
  json list = internal::parse_json_if_any(text);
  if (!list.is_array())
    throw Error(Code::kInvalidInput, fmt::format("[hub] {} is no JSON list; an ONNX hub manifest was expected; check "
                                                 "--hub-manifest",
                                                 source));
  std::vector<HubModel> models;
  for (const json& entry : list) models.push_back(Entry(entry, static_cast<int64_t>(models.size()), source).model());
  return models;
}

std::vector<HubModel> filter_hub(std::span<const HubModel> models, const HubFilter& filter) {
  std::string name = lower(filter.name);
  bool glob = name.find_first_of("*?[") != std::string::npos;
  auto wanted = [&](const HubModel& m) {
    std::string own = lower(m.name);
    bool named = glob ? ::fnmatch(name.c_str(), own.c_str(), 0) == 0 : own.find(name) != std::string::npos;
    bool tagged = filter.tags.empty() || std::any_of(m.tags.begin(), m.tags.end(), [&](const std::string& tag) {
                    return std::any_of(filter.tags.begin(), filter.tags.end(),
                                       [&](const std::string& asked) { return lower(asked) == lower(tag); });
                  });
    return named && tagged && (filter.opset == 0 || filter.opset == m.opset);
  };
  std::vector<HubModel> found;
  std::copy_if(models.begin(), models.end(), std::back_inserter(found), wanted);
  return found;
}

HubModel find_hub_model(std::span<const HubModel> models, const std::string& name) {
  size_t at = name.rfind('@');
  std::string base = lower(name.substr(0, at)), opset = at == std::string::npos ? "" : name.substr(at + 1);
  const HubModel* best = nullptr;
  std::vector<std::string> names, opsets;
  for (const HubModel& m : models) {
    names.push_back(m.name);
    if (lower(m.name) != base) continue;
    opsets.push_back(std::to_string(m.opset));
    bool asked = opset.empty() ? !best || m.opset > best->opset : opsets.back() == opset && !best;
    if (asked) best = &m;
  }
  if (best) return *best;
  if (!opsets.empty())
    throw Error(Code::kInvalidInput, fmt::format("[hub] {} with opset {} is not in the hub; opset {} was expected",
                                                 name.substr(0, at), opset, fmt::join(opsets, " or ")));
  throw Error(Code::kInvalidInput,
              fmt::format("[hub] '{}' is not in the hub; the nearest are: {}; see `seqto hub list`", name,
                          fmt::join(internal::nearest_names(name, names), ", ")));
}

}  // namespace seqto
