// ONNX files: what inspect, lint, prepare and quantize do with them.
#include <unistd.h>

#include <map>

#include "fuzz/targets.h"
#include "seqto/explain.h"
#include "seqto/prepare.h"
#include "seqto/quantize.h"
#include "seqto/target.h"

namespace seqto::fuzz {
namespace {

// A range for all that nodes read and write; some are of one value, some of one sign.
Ranges some_ranges(const Model& model) {
  const Range kRanges[] = {{-1, 2}, {0, 6}, {-3, -1}, {0, 0}};
  Ranges ranges;
  size_t count = 0;
  const auto add = [&](const std::string& name) { ranges.emplace(name, kRanges[count++ % std::size(kRanges)]); };
  for (const Node& n : model.graph.nodes) {
    for (const std::string& name : n.inputs) add(name);
    for (const std::string& name : n.outputs) add(name);
  }
  return ranges;
}

struct Form {
  Scheme scheme = Scheme::kInt8;
  QuantizeOptions options;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = [] {
    using S = Scheme;
    return std::vector<Form>{
        {S::kInt8, {}},
        {S::kInt8,
         {.activation_type = DataType::kUint8, .weight_clipping = WeightClipping::kMse, .reduce_range = true}},
        {S::kInt8, {.per_channel = true, .unify_concat = true, .float_unlike_concat = true}},
        {S::kInt8, {.add_qdq_pair_to_weight = true, .dedicated_qdq_pair = true, .compat_onnxruntime = true}},
        {S::kInt8, {.weight_type = DataType::kInt4, .block_size = 16}},
        {S::kInt8, {.format = QuantFormat::kQoperator, .activation_type = DataType::kUint8, .enable_subgraph = true}},
        {S::kInt8wInt16a, {.activation_type = DataType::kInt16}},
        {S::kInt8Dynamic, {.enable_subgraph = true}},
        {S::kInt8Dynamic, {.per_channel = true, .per_token = true}},
        {S::kInt8Weights, {}},
        {S::kInt4Weights, {}},
        {S::kFloat16, {}},
    };
  }();
  return kForms;
}

void quantize(const Model& loaded, const Form& form) {
  const Model model = quantizable_form(loaded, form.options).model;
  refuse_trees(model);
  Quantizer quantizer(model, some_ranges(model), form.options);
  const Model made = quantizer.quantize(uniform_plan(model, form.scheme));
  check_model(made);
  explain(model, made);
}

void inspect(Model model) {
  name_nodes(model);
  quantized_form(model);
  explain(model);
  model = infer_shapes(model);
  layers(model);
  groups(model);
  layer_tensors(model);
  static const Target kX86 = load_target("onnxruntime-cpu-x86"), kTensorrt = load_target("tensorrt");
  lint_to_json(lint(model, kX86));
  lint_to_json(lint(model, kTensorrt));
}

// Of the bytes: so that a file is quantized in the same form again.
uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 14695981039346656037U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return hash ^ hash >> 32;
}

}  // namespace

void read_onnx(std::string_view bytes) {
  std::optional<Model> read;
  refusing([&] { read = load_model(file("model.onnx", bytes)); });
  if (!read) return;
  const Model& model = *read;
  refusing([&] { inspect(model); });
  refusing([&] { in_float32(model); });
  refusing([&] { dequantize(model); });
  refusing([&] {
    const Prepared prepared = preprocess(model, nullptr);
    check_model(prepared.model);
    serialize(prepared.model);
  });
  refusing([&] { quantize(model, forms()[hash_of(bytes) % forms().size()]); });
}

// Beside the model: weights, a link and a pipe out of the folder.
void read_external(std::string_view bytes) {
  static const bool kMade = [] {
    file("weights.bin", std::string(64, '\1'));
    std::filesystem::create_symlink("/dev/zero", folder() / "link.bin");
    std::filesystem::create_directory(folder() / "sub");
    file("sub/weights.bin", std::string(64, '\2'));
    return true;
  }();
  refusing([&] {
    const Model model = load_model(file("model.onnx", bytes));
    for (const Initializer& i : model.graph.initializers)
      if (!kMade || i.tensor.bytes().size() > size_t{1} << 20) throw std::length_error("more bytes than the file has");
    serialize(model);
    quantize(model, {Scheme::kInt8Weights, {}});
  });
}

}  // namespace seqto::fuzz
