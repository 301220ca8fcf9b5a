#include <fmt/format.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "base/files.h"
#include "model/check_graph.h"
#include "model/parse_with.h"
#include "model/proto.h"
#include "model/wire.h"
#include "seqto/error.h"

namespace seqto {
namespace {

onnx::ModelProto parse(std::string_view bytes, const std::string& where) {
  onnx::ModelProto proto;
  bool parsed = bytes.size() < (size_t{2} << 30) && proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  // Every ONNX file begins with field 1 (ir_version, a varint): what begins so but does not parse is a broken model.
  bool looks_like_onnx = bytes.size() > 1 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 64;
  if (!parsed && looks_like_onnx)
    throw Error(Code::kInvalidInput, fmt::format("[load] {}: {} bytes of a truncated or damaged ONNX model found; a "
                                                 "complete file was expected; copy or export it again",
                                                 where, bytes.size()));
  if (!parsed || !proto.has_graph() || proto.ir_version() == 0)
    throw Error(Code::kInvalidInput,
                fmt::format("[load] {}: not an ONNX model ({} bytes); an .onnx file was expected; check the path",
                            where, bytes.size()));
  return proto;
}

// What today's runtimes load; libonnx knows newer ones, which no runtime accepts yet.
constexpr int64_t kMaxIrVersion = 13, kMinOpset = 7, kMaxOpset = 26, kMaxMlOpset = 5;

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// By domain.
using Versions = std::map<std::string, int64_t>;
Versions versions_of(const auto& opset_import) {
  Versions versions;
  for (const auto& o : opset_import) versions.emplace(domain_of(o.domain()), o.version());
  return versions;
}

// `of`: "" of the model, "function 'own.Block': " of a function.
void require_supported(const Versions& versions, const std::string& where, const std::string& of) {
  const auto require = [&](const char* domain, const char* name, int64_t least, int64_t most) {
    const auto found = versions.find(domain);
    if (found == versions.end() || (found->second >= least && found->second <= most)) return;
    throw Error(
        Code::kInvalidInput,
        fmt::format("[load] {}: {}opset {}{} found; {} to {} are supported; export the model with another opset", where,
                    of, found->second, name, least, most));
  };
  require("", "", kMinOpset, kMaxOpset);
  require("ai.onnx.ml", " of ai.onnx.ml", 1, kMaxMlOpset);
}

void check_versions(const onnx::ModelProto& proto, const std::string& where) {
  if (proto.ir_version() > kMaxIrVersion)
    throw Error(Code::kInvalidInput,
                fmt::format("[load] {}: IR version {} found; at most {} is supported; export it with "
                            "an older ONNX or set ir_version={}",
                            where, proto.ir_version(), kMaxIrVersion, kMaxIrVersion));
  const Versions versions = versions_of(proto.opset_import());
  for (const auto& o : proto.opset_import()) {
    const auto known = versions.find(domain_of(o.domain()));
    if (known->second != o.version())
      throw Error(
          Code::kInvalidInput,
          fmt::format("[load] {}: opsets {} and {} of one domain, '{}', found; one was expected, since runtimes "
                      "differ in which they take; remove the other from opset_import",
                      where, known->second, o.version(), o.domain()));
  }
  require_supported(versions, where, "");
  if (versions.contains("") || versions.contains("ai.onnx.ml")) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[load] {}: no opset of ai.onnx found; one was expected; export the model again", where));
}

std::string id_of(const std::string& domain, const std::string& name, const std::string& overload) {
  return fmt::format("{}:{}:{}", domain_of(domain), name, overload);
}

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// The functions of a model, by what calls them.
class Functions {
 public:
  static constexpr size_t kMost = 200'000;

  explicit Functions(const onnx::ModelProto& model) {
    for (const auto& f : model.functions()) functions_[id_of(f.domain(), f.name(), f.overload())] = &f;
  }

  // How many nodes these are when all calls are inlined; kMost where there are more, calls are deeper than kDeepest or
  // in a ring.
  size_t inlined(const Nodes& nodes, int depth = 0) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) return kMost;
    size_t count = 0;
    for (const onnx::NodeProto& node : nodes) {
      count += inlined_call(node, depth);
      for (const auto& a : node.attribute()) {
        if (a.has_g()) count += inlined(a.g().node(), depth + 1);
        for (const auto& body : a.graphs()) count += inlined(body.node(), depth + 1);
      }
      if (count >= kMost) return kMost;
    }
    return count;
  }

  // Gives calls the attributes that their functions have by default, which libonnx leaves out.
  void write_defaults(Nodes& nodes) const {
    for (onnx::NodeProto& node : nodes) {
      for (auto& a : *node.mutable_attribute()) {
        if (a.has_g()) write_defaults(*a.mutable_g()->mutable_node());
        for (auto& body : *a.mutable_graphs()) write_defaults(*body.mutable_node());
      }
      const onnx::FunctionProto* function = called_by(node);
      if (!function) continue;
      for (const auto& by_default : function->attribute_proto())
        if (std::ranges::none_of(node.attribute(), [&](const auto& a) { return a.name() == by_default.name(); }))
          *node.add_attribute() = by_default;
    }
  }

 private:
  const onnx::FunctionProto* called_by(const onnx::NodeProto& node) const {
    const auto function = functions_.find(id_of(node.domain(), node.op_type(), node.overload()));
    return function == functions_.end() ? nullptr : function->second;
  }

  size_t inlined_call(const onnx::NodeProto& node, int depth) {
    const onnx::FunctionProto* function = called_by(node);
    if (!function) return 1;
    const auto [known, is_new] = counts_.emplace(function, kMost);  // what it calls itself by
    if (!is_new) return known->second;
    const size_t count = inlined(function->node(), depth + 1);
    return counts_[function] = count;
  }

  std::map<std::string, const onnx::FunctionProto*> functions_;
  std::map<const onnx::FunctionProto*, size_t> counts_;  // never in an order
};

// The schema's first version; 0: there is none of it.
int version_of(const onnx::NodeProto& node, int64_t opset) {
  const auto* schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), domain_of(node.domain()));
  return schema ? schema->SinceVersion() : 0;
}

// Gives functions the opsets of the model. Where an operator differs between both, neither ONNX's checker takes the
// file, nor can the function be inlined.
void unify_opsets(onnx::ModelProto& model, const std::string& where) {
  const Versions of_model = versions_of(model.opset_import());
  for (onnx::FunctionProto& f : *model.mutable_functions()) {
    const Versions own = versions_of(f.opset_import());
    const std::string of = fmt::format("function '{}.{}'", f.domain(), f.name());
    for (const onnx::NodeProto& node : f.node()) {
      const std::string domain = domain_of(node.domain());
      const auto inner = own.find(domain), outer = of_model.find(domain);
      if (inner != own.end()) require_supported({*inner}, where, of + ": ");
      else if (domain.empty())
        throw Error(
            Code::kInvalidInput,
            fmt::format("[load] {}: {} with {} and no opset of ai.onnx found; one expected, as the model's; export "
                        "the model again, or without functions",
                        where, of, node.op_type()));
      if (inner == own.end() || outer == of_model.end() ||
          version_of(node, inner->second) == version_of(node, outer->second))
        continue;
      throw Error(Code::kInvalidInput,
                  fmt::format("[load] {}: {} of opset {} found in a model of opset {}, where {} is another; one opset "
                              "expected; export the model and its functions with opset {}, or without functions",
                              where, of, inner->second, outer->second, node.op_type(), outer->second));
    }
    for (auto& o : *f.mutable_opset_import())
      if (const auto outer = of_model.find(domain_of(o.domain())); outer != of_model.end())
        o.set_version(outer->second);
  }
}

// The layers within a model's own functions are layers as others are. What libonnx does not inline stays a call:
// runtimes may take it, or say what is wrong. Returns whether something changed. Throws Error{kInvalidInput} for calls
// that no file has room for.
bool inline_functions(onnx::ModelProto& model, const std::string& where) {
  if (model.functions().empty()) return false;
  unify_opsets(model, where);
  if (Functions(model).inlined(model.graph().node()) >= Functions::kMost)
    throw Error(
        Code::kInvalidInput,
        fmt::format("[load] {}: functions that are {} nodes or more where they are called, or call each other in "
                    "a ring, found; fewer expected; export the model without them",
                    where, Functions::kMost));
  onnx::ModelProto inlined = model;
  const Functions functions(model);
  functions.write_defaults(*inlined.mutable_graph()->mutable_node());
  for (auto& function : *inlined.mutable_functions()) functions.write_defaults(*function.mutable_node());
  try {
    onnx::inliner::InlineLocalFunctions(inlined);
  } catch (const std::runtime_error&) {
    return false;
  }
  model = std::move(inlined);
  return true;
}

}  // namespace

Initializer parse_tensor(std::string_view bytes, const std::string& where) {
  onnx::TensorProto proto;
  bool parsed = bytes.size() < (size_t{2} << 30) && proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!parsed || proto.data_type() == onnx::TensorProto::UNDEFINED)
    throw Error(Code::kInvalidInput,
                fmt::format("[load] {}: {} bytes that are no tensor found; a serialized TensorProto was expected; "
                            "sequences, maps and optional values are not read",
                            where, bytes.size()));
  return internal::initializer_from(std::move(proto));
}

Model load_model(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  auto light = internal::without_weights(bytes);
  onnx::ModelProto proto = parse(light ? std::string_view(light->bytes) : bytes, path.string());
  check_versions(proto, path.string());
  internal::check_graph(proto, path.string());
  if (inline_functions(proto, path.string())) internal::check_graph(proto, path.string());
  internal::Outside outside{.folder = path.parent_path(), .file = file};
  if (light) outside.raw_data = std::move(light->raw_data);
  return internal::from_proto(std::move(proto), outside);
}

Model parse_model(std::string_view bytes) { return internal::parse_with(bytes, {}); }

Model internal::parse_with(std::string_view bytes, std::vector<Initializer> left_out) {
  onnx::ModelProto proto = parse(bytes, "model in memory");
  check_versions(proto, "model in memory");
  check_graph(proto, "model in memory", left_out);
  if (inline_functions(proto, "model in memory")) check_graph(proto, "model in memory", left_out);
  Model model = from_proto(std::move(proto), {});
  std::ranges::move(left_out, std::back_inserter(model.graph.initializers));
  return model;
}

Model parse_model_text(std::string_view text) {
  onnx::ModelProto proto;
  std::string copy(text);
  onnx::OnnxParser parser(copy.c_str());
  auto status = parser.Parse(proto);
  if (!status.IsOK())
    throw Error(Code::kInvalidInput, fmt::format("[parse] {}; ONNX's text form was expected", status.ErrorMessage()));
  return internal::from_proto(std::move(proto), {});
}

}  // namespace seqto
