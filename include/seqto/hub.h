// Room: orchestrator. The ONNX Model Hub: a list of models behind a URL, fetched into a cache, every byte verified.
//
// A hub is a manifest (ONNX_HUB_MANIFEST.json, as onnx.hub reads it) and a base URL below which its files lie.
// Nothing is used whose SHA-256 is not the manifest's. Any number of processes may share a cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/env.h"

namespace seqto {

struct HubOptions {
  // Where model files lie: http:// or https://. Empty: $SEQTO_HUB_URL, else the mirror of the ONNX Model Zoo.
  std::string url;
  // The manifest. Empty: $SEQTO_HUB_MANIFEST, else ONNX_HUB_MANIFEST.json below `url` where that was given, else the
  // ONNX Model Zoo's.
  std::string manifest;
  // Empty: $SEQTO_HUB_CACHE, else $XDG_CACHE_HOME/seqto/hub, else ~/.cache/seqto/hub.
  std::filesystem::path cache;
  bool offline = false;  // the cache alone; what is not there is an error
};

// An input or output as the manifest has it; a dimension is a number, a name, or "?".
struct HubPort {
  std::string name, type;  // "tensor(float)"
  std::vector<std::string> shape;
};

struct HubFile {
  std::string path;    // below the hub's URL
  std::string sha256;  // 64 hex digits; empty: the manifest has none, and the file is not fetched
  int64_t size_bytes = 0;
};

struct HubModel {
  std::string name;
  int64_t opset = 0;
  int64_t index = 0;  // in the manifest
  std::vector<std::string> tags;
  std::vector<HubPort> inputs, outputs;
  HubFile file;
  std::optional<HubFile> archive;  // .tar.gz of the model and its test_data_set_* folders
};

// The models in the manifest's order. When it cannot be read from its URL, the copy of last time serves, with a
// warning. Throws Error: kUnavailable (no connection and no copy, or offline without one), kInvalidInput (no manifest).
std::vector<HubModel> list_hub(const HubOptions& = {}, const Env& = {});

struct HubFilter {
  std::string name;               // part of the name, in any case of letters; with *, ? or [: a glob on all of it
  int64_t opset = 0;              // 0: any
  std::vector<std::string> tags;  // one of them is enough
};
std::vector<HubModel> filter_hub(std::span<const HubModel> models, const HubFilter& filter);

// "NAME" or "NAME@OPSET", in any case of letters; without the opset the largest. Throws Error{kInvalidInput} with the
// nearest names, or the opsets that there are.
HubModel find_hub_model(std::span<const HubModel> models, const std::string& name);

struct HubFiles {
  std::filesystem::path model;                   // the .onnx file
  std::vector<std::filesystem::path> test_data;  // test_data_set_* folders; empty unless asked for
};
// From the cache, or downloaded into it. `test_data`: its archive too, unpacked.
// Throws Error: kUnavailable (network, offline), kInvalidInput (wrong hash, hostile archive, unsafe path),
// kInterrupted; what has arrived by then stays and the next call goes on from it.
HubFiles fetch_hub(const HubModel& model, bool test_data, const HubOptions& = {}, const Env& = {});

// What a user names as a model: "hub:NAME" or "hub:NAME@OPSET" is found in the hub and fetched, anything else is a path
// and stays as it is. Throws Error as list_hub(), find_hub_model() and fetch_hub().
bool names_hub_model(const std::string& asked);
HubFiles fetch_model(const std::string& asked, bool test_data = false, const HubOptions& = {}, const Env& = {});

struct HubCheck {
  std::filesystem::path file;
  bool good = false;
  std::string found;  // its SHA-256
};
// Hashes every file of the cache again; their names hold what they should be.
std::vector<HubCheck> verify_hub(const HubOptions& = {}, const Env& = {});

}  // namespace seqto
