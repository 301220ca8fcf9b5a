// config.json of the published tool, https://github.com/luludak/SeQTO, as flags of `tune`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "seqto/error.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Kind = Setting::Kind;

// What each image goes through, in the form of docs/reference/preprocess.md. The published tool tells them apart by
// parts of the name, in this order.
std::string preprocessing(std::string name) {
  constexpr const char* kNormalized = R"("mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})";
  name = internal::lower(name);
  auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("disable_preprocessing")) return "none";
  if (has("_to_")) name = name.substr(0, name.find("_to_"));  // library_torch_to_keras: as in torch
  if (has("keras")) return "";
  if (has("torch")) return "imagenet";
  if (has("onnx")) return std::string(R"({"resize":{"short_side":224},)") + kNormalized;
  if (has("imagenet")) return "imagenet";
  if (has("googlenet"))
    return R"({"resize":{"width":224,"height":224},"channel_order":"bgr","scale":1,"mean":[103.939,116.779,123.68]})";
  if (has("densenet")) return "";
  if (has("mobilenet") || has("shufflenet"))
    return std::string(R"({"resize":{"width":224,"height":224},)") + kNormalized;
  if (has("inceptionv3") || has("inception_v3") || has("resnet"))
    return R"({"resize":{"width":224,"height":224},"mean":[0.5,0.5,0.5],"std":[0.5,0.5,0.5]})";
  return "";
}

class Translator {
 public:
  Translator(const fs::path& path) : path_(path), folder_(fs::absolute(path).parent_path()) {
    root_ = internal::parse_json_if_any<ordered_json>(read_file(path));
    if (!root_.is_object())
      throw Error(Code::kInvalidInput,
                  fmt::format("[config] {} is no JSON object; the published tool's config.json was "
                              "expected; a native file is TOML, see docs/reference/config.md",
                              path.string()));
  }

  PublishedConfig run() {
    std::string type = text("run_type", "onnx");
    if (type != "onnx" && type != "tvm") fail("run_type", "onnx or tvm");
    models();
    images();
    if (type == "tvm") device();
    else use("tvm");
    quantizer();
    options();
    visualizer();
    set("strategy", "incremental");
    set("output", "seqto-results");
    for (const auto& key : unused())
      result_.warnings.push_back(fmt::format("{}: '{}' means nothing here", path_.string(), key));
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    const ordered_json* value = find(key);
    throw Error(Code::kInvalidInput,
                fmt::format("[config] {}: {} = {} found; {} was expected; see docs/reference/config.md", path_.string(),
                            key, value ? value->dump() : "nothing", expected));
  }

  // "images.chunk": the value there, or null.
  const ordered_json* find(const std::string& key) const {
    const ordered_json* at = &root_;
    for (size_t from = 0; from <= key.size();) {
      size_t to = std::min(key.find('.', from), key.size());
      std::string part = key.substr(from, to - from);
      if (!at->is_object() || !at->contains(part)) return nullptr;
      at = &(*at)[part];
      from = to + 1;
    }
    return at;
  }

  const ordered_json* use(const std::string& key) {
    used_.push_back(key);
    return find(key);
  }

  std::string text(const std::string& key, const std::string& otherwise) {
    const ordered_json* value = use(key);
    if (!value || value->is_null()) return otherwise;
    if (!value->is_string()) fail(key, "a text");
    return value->get<std::string>();
  }
  int64_t integer(const std::string& key, int64_t otherwise) {
    const ordered_json* value = use(key);
    if (!value || value->is_null()) return otherwise;
    if (value->is_string()) {  // the published tool takes "9092" as well
      std::string digits = value->get<std::string>();
      if (!digits.empty() && digits.size() < 18 && digits.find_first_not_of("0123456789") == std::string::npos)
        return std::stoll(digits);
    }
    if (!value->is_number_integer()) fail(key, "a whole number");
    return value->get<int64_t>();
  }
  bool yes(const std::string& key, bool otherwise) {
    const ordered_json* value = use(key);
    if (!value || value->is_null()) return otherwise;
    if (!value->is_boolean()) fail(key, "true or false");
    return value->get<bool>();
  }
  std::vector<std::string> texts(const std::string& key) {
    const ordered_json* value = use(key);
    std::vector<std::string> list;
    if (!value || value->is_null()) return list;
    if (!value->is_array()) fail(key, "a list of texts");
    for (const auto& entry : *value) {
      if (!entry.is_string()) fail(key, "a list of texts");
      list.push_back(entry.get<std::string>());
    }
    return list;
  }

  void set(const std::string& name, const std::string& value, Kind kind = Kind::kText) {
    result_.settings.push_back({name, {{kind, value}}, false, path_.string()});
  }
  void set(const std::string& name, int64_t value) { set(name, std::to_string(value), Kind::kInteger); }
  void set_list(const std::string& name, const std::vector<std::string>& values) {
    Setting setting{.name = name, .list = true, .where = path_.string()};
    for (const auto& value : values) setting.values.push_back({Kind::kText, value});
    result_.settings.push_back(std::move(setting));
  }

  void models() {
    if (!yes("onnx_hub.activate", false)) {
      use("onnx_hub");
      set("model", "local_models");
      return;
    }
    std::string model = "hub:*";
    if (yes("onnx_hub.filter.enabled", false)) {
      model = fmt::format("hub:*{}*", text("onnx_hub.filter.name", ""));
      if (find("onnx_hub.filter.opset")) model += fmt::format("@{}", integer("onnx_hub.filter.opset", 0));
    } else {
      use("onnx_hub.filter");
    }
    set("model", model);
    set("hub-first", integer("onnx_hub.start", 0));
    if (find("onnx_hub.end")) set("hub-last", integer("onnx_hub.end", 0));
  }

  // "/images/imagenet/" is below the file's folder.
  std::string folder(const std::string& key) {
    std::string path = text(key, "");
    path.erase(0, path.find_first_not_of('/'));
    while (path.ends_with('/')) path.pop_back();
    return path;
  }

  void images() {
    use("images.note");
    std::string data = folder("images.images_folder_rel_path");
    if (data.empty()) fail("images.images_folder_rel_path", "a folder");
    set("data", data);
    if (auto path = folder("images.calibration_images_rel_path"); !path.empty()) {
      set("calibration-data", path);
      set("calibration-samples", int64_t{0});
    }
    if (auto path = folder("images.small_calibr_images_folder_rel_path"); !path.empty()) set("ranking-data", path);
    int64_t drawn = integer("images.random_k", 0);
    if (yes("images.random_enabled", false) && drawn > 0) {
      // Drawn with replacement there, and anew for every candidate; here without, and once for all.
      std::error_code error;
      auto files = std::distance(fs::directory_iterator(folder_ / data, error), fs::directory_iterator());
      if (error || drawn < files) set("random-samples", drawn);
      else
        result_.warnings.push_back(fmt::format("{}: images.random_k is {}, {} has {}: all of them are used",
                                               path_.string(), drawn, data, files));
    }
    if (int64_t chunk = integer("images.chunk", 1); chunk > 0) set("chunk", chunk);
  }

  void device() {
    std::string at = "tvm.devices." + text("tvm.devices.selected", "default") + ".";
    if (!find(at.substr(0, at.size() - 1))) fail("tvm.devices.selected", "the name of one of tvm.devices");
    use("tvm.devices.id");
    use(at + "target_framework");  // the kind that the target names
    std::string target = text(at + "target", "llvm"), host = text(at + "host", "");
    std::string where = text(at + "host_type", ""), key = text(at + "key", "");
    // The host's part of it: "llvm -mtriple=arm64-linux-android".
    size_t flags = host.find(" -");
    if (flags != std::string::npos) target += host.substr(flags);
    std::string address = text(at + "address", ""), port = std::to_string(integer(at + "port", 9090));
    bool local = where == "local" || where == "local_no_rpc";
    set("device", local ? "tvm:" + target : fmt::format("tvm+tracker:{}:{}:{}:{}", address, port, key, target));
  }

  void quantizer() {
    const ordered_json* threshold = use("onnx.threshold");
    if (threshold && !threshold->is_number()) fail("onnx.threshold", "a number of percent");
    double percent = threshold ? threshold->get<double>() : 0;
    set("threshold", fmt::format("{}", percent / 100), Kind::kFloat);
    if (yes("onnx.preprocess_model", false)) set("prepare-models", "true", Kind::kBool);
    bool fixed = yes("onnx.quantize_static", false);
    set_list("schemes", {fixed ? "int8" : "int8_dynamic", "float32"});
    if (!fixed) set("weight-type", "uint8");
  }

  void options() {
    std::string name = text("options.preprocessing_setting", text("onnx_hub.filter.name", "imagenet"));
    std::string recipe = preprocessing(name);
    if (recipe.empty())
      fail("options.preprocessing_setting",
           "imagenet, torch, onnx, mobilenet, shufflenet, resnet, inception_v3, googlenet or disable_preprocessing");
    set("preprocess", recipe);
    if (auto nodes = texts("options.nodes_to_exclude"); !nodes.empty()) set_list("exclude-if-present", nodes);
    // Those that made no difference, for a run that goes on; here the study knows.
    if (texts("options.skipped_nodes").empty()) return;
    result_.warnings.push_back(fmt::format("{}: 'options.skipped_nodes' means nothing here", path_.string()));
  }

  void visualizer() {
    const std::vector<std::string> labels = texts("visualizer.labels");
    const std::vector<std::string> names{"rank_dissimilarity", "size", "latency"};
    if (labels != std::vector<std::string>{"Dissimilarity", "Size", "Execution Time"} && !labels.empty())
      result_.warnings.push_back(fmt::format("{}: 'visualizer.labels' means nothing here; the objectives are {}",
                                             path_.string(), fmt::join(names, ", ")));
    std::vector<std::string> active;
    const ordered_json* flags = use("visualizer.active_labels");
    if (flags && !flags->is_array()) fail("visualizer.active_labels", "a list of true and false");
    for (size_t i = 0; i < names.size(); ++i)
      if (flags ? i < flags->size() && (*flags)[i] == true : i < 2) active.push_back(names[i]);
    if (active.empty()) fail("visualizer.active_labels", "one or more that are true");
    set_list("objectives", active);
  }

  // Leaves of the file that nothing above has asked for.
  std::vector<std::string> unused() const {
    std::vector<std::string> keys;
    auto visit = [&](auto& self, const ordered_json& value, const std::string& key) -> void {
      bool known = std::any_of(used_.begin(), used_.end(),
                               [&](const std::string& u) { return u == key || key.starts_with(u + "."); });
      bool other = key.starts_with("tvm.devices.") && value.is_object();  // a device that is not selected
      if (known && !key.empty()) return;
      if (other && std::none_of(used_.begin(), used_.end(), [&](const auto& u) { return u.starts_with(key + "."); }))
        return;
      if (!value.is_object()) keys.push_back(key);
      else
        for (const auto& [name, inner] : value.items()) self(self, inner, key.empty() ? name : key + "." + name);
    };
    visit(visit, root_, "");
    return keys;
  }

  const fs::path& path_;
  fs::path folder_;
  ordered_json root_;
  std::vector<std::string> used_;
  PublishedConfig result_;
};

}  // namespace

bool is_published_config(const std::filesystem::path& path) {
  std::string text = read_file(path);
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

PublishedConfig read_published_config(const std::filesystem::path& path) { return Translator(path).run(); }

}  // namespace seqto
