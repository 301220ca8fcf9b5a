// Plans in the words of other tools: each form read as the tool reads it, written, and read back.
#include "seqto/dialects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "seqto/error.h"

namespace seqto {
namespace {

// conv1 - relu1 - conv2 - add(conv1) - flatten - gemm
const Model& model() {
  static const Model made = [] {
    Model m = parse_model_text(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1, 2, 4, 4] x) => (float[1, 3] y)
        <float[2, 2, 1, 1] w1 = {1, 2, 3, 4}, float[2, 2, 1, 1] w2 = {1, -2, 3, -4}>
      {
        a = Conv(x, w1)
        b = Relu(a)
        c = Conv(b, w2)
        d = Add(c, a)
        e = Flatten(d)
        y = Gemm(e, w3)
      })");
    const char* names[] = {"conv1", "relu1", "/block/conv2", "/block/add", "flatten", "gemm"};
    for (size_t i = 0; i < m.graph.nodes.size(); ++i) m.graph.nodes[i].name = names[i];
    m.graph.initializers.push_back({"w3", float_tensor({32, 3}, std::vector<float>(96, 0.5f))});
    return infer_shapes(m);
  }();
  return made;
}

std::vector<LayerId> int8_layers(const ForeignPlan& plan) {
  std::vector<LayerId> names;
  for (const Node& n : model().graph.nodes)
    if (auto it = plan.plan.schemes.find(n.name); it != plan.plan.schemes.end() && it->second == Scheme::kInt8)
      names.push_back(n.name);
  return names;
}

ForeignPlan read(const std::string& text) { return read_plan(text, detect_dialect(text), model()); }
std::vector<LayerId> kept(const std::string& text) { return int8_layers(read(text)); }

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    return error.what();
  }
  return "";
}
bool says(const std::string& words, std::string_view part) { return words.find(part) != std::string::npos; }

using Names = std::vector<LayerId>;

TEST(Dialects, AreToldApart) {
  const std::pair<const char*, Dialect> texts[] = {
      {R"({"schema_version": 1, "schemes": {}})", Dialect::kSeqto},
      {R"(["conv1"])", Dialect::kOnnxruntime},
      {R"({"nodes_to_exclude": []})", Dialect::kOnnxruntime},
      {R"({"quantization": {"nodes_to_exclude": []}})", Dialect::kOnnxruntime},
      {R"({"a": [{"scale": 0.5, "zero_point": 1}]})", Dialect::kOnnxruntime},
      {R"({"ignored_scope": {"types": ["Gemm"]}})", Dialect::kNncf},
      {R"(["{re}conv.*"])", Dialect::kNncf},
      {R"({"names": ["conv1"], "validate": false})", Dialect::kNncf},
      {"conv1:fp32,gemm:int8\n", Dialect::kTensorrt},
      {"trtexec --int8 --layerPrecisions=*:fp16 --fp16", Dialect::kTensorrt},
      {R"({"version": "2.0.0", "encodings": []})", Dialect::kAimet},
      {R"({"activation_encodings": {}, "param_encodings": {}})", Dialect::kAimet},
      {R"({"exclude": ["conv1"]})", Dialect::kQuark},
      {R"(["^/block/.*"])", Dialect::kQuark},
      {R"([[["conv1"], ["gemm"]]])", Dialect::kQuark}};
  for (const auto& [text, dialect] : texts) EXPECT_EQ(detect_dialect(text), dialect) << text;
  EXPECT_TRUE(says(error_of("nothing of the kind"), "no known dialect"));
  EXPECT_TRUE(says(error_of("{}"), "no known dialect"));
  EXPECT_TRUE(says(error_of("[]"), "no known dialect"));
  for (int d = 0; d < 6; ++d) EXPECT_EQ(parse_dialect(to_string(static_cast<Dialect>(d))), static_cast<Dialect>(d));
}

TEST(Dialects, ExclusionListsAreReadAsTheirToolsReadThem) {
  const Names all{"conv1", "relu1", "/block/conv2", "/block/add", "flatten", "gemm"};
  EXPECT_EQ(kept(R"({"nodes_to_exclude": []})"), all);
  EXPECT_EQ(kept(R"({"nodes_to_exclude": ["conv1", "gemm"]})"),
            (Names{"relu1", "/block/conv2", "/block/add", "flatten"}));
  EXPECT_EQ(kept(R"({"nodes_to_exclude": [], "op_types_to_quantize": ["Conv"]})"), (Names{"conv1", "/block/conv2"}));
  EXPECT_EQ(kept(R"({"quantization": {"nodes_to_exclude": null, "nodes_to_quantize": ["gemm"]}})"), (Names{"gemm"}));
  EXPECT_EQ(read(R"(["none"])").notes, std::vector<std::string>{"node 'none' matches nothing in the model"});

  // Python's re.match: from the start, not to the end.
  EXPECT_EQ(kept(R"({"ignored_scope": {"patterns": ["conv"], "types": ["Gemm", "Flatten"]}})"),
            (Names{"relu1", "/block/conv2", "/block/add"}));
  EXPECT_EQ(kept(R"({"ignored_scopes": ["relu1", "{re}.*block"]})"), (Names{"conv1", "flatten", "gemm"}));
  EXPECT_EQ(kept(R"({"ignored_scope": {"subgraphs": [{"inputs": ["relu1"], "outputs": ["/block/add"]}]}})"),
            (Names{"conv1", "flatten", "gemm"}));
  EXPECT_TRUE(
      says(error_of(R"({"names": ["conv"]})"), "node 'conv' matches nothing in the model; the nearest are: conv1"));
  EXPECT_EQ(kept(R"({"names": ["conv"], "validate": false})"), all);
  EXPECT_TRUE(says(error_of(R"({"ignored_scope": {"patterns": ["("]}})"), "the pattern '(' found"));
  EXPECT_TRUE(says(error_of(R"({"ignored_scope": {"names": 3}})"), "nncf's form was expected"));

  // Quark: re.search of patterns that begin with ^; pairs of subgraphs; a type without a configuration.
  EXPECT_EQ(kept(R"({"exclude": ["conv1", "^/block/.*"]})"), (Names{"relu1", "flatten", "gemm"}));
  EXPECT_EQ(kept(R"({"exclude": [[["/block/conv2"], ["/block/add"]]]})"), (Names{"conv1", "relu1", "flatten", "gemm"}));
  EXPECT_EQ(kept(R"({"exclude": [], "layer_type_config": [[null, ["Conv"]], [{"weight": 1}, ["Gemm"]]]})"),
            (Names{"relu1", "/block/add", "flatten", "gemm"}));
}

TEST(Dialects, OfAnotherModelOrFormAreRefused) {
  const auto own = [](const std::string& layers) { return R"({"schema_version": 1, "schemes": )" + layers + "}"; };
  EXPECT_TRUE(says(error_of(own(R"({"other": "int8"})")), "'other' found, none of them a layer of the model"));
  const ForeignPlan some = read(own(R"({"other": "int8", "gemm": "int8"})"));
  EXPECT_EQ(int8_layers(some), Names{"gemm"});
  EXPECT_FALSE(some.plan.schemes.contains("other"));
  ASSERT_EQ(some.notes.size(), 1U);
  EXPECT_TRUE(says(some.notes[0], "1 of the plan's 2 layers are none of the model's"));
  for (const Dialect dialect :
       {Dialect::kOnnxruntime, Dialect::kNncf, Dialect::kTensorrt, Dialect::kAimet, Dialect::kQuark})
    EXPECT_THROW(read_plan(own(R"({"gemm": "int8"})"), dialect, model()), Error) << to_string(dialect);
}

TEST(Dialects, LayerPrecisionsAreReadFromLeftToRight) {
  const ForeignPlan plan =
      read("trtexec --int8 '--layerPrecisions=*:fp16,conv1:int8,gemm:fp32,conv1:fp32,pool:fp16' --fp16");
  EXPECT_EQ(plan.plan.schemes.at("/block/conv2"), Scheme::kFloat16);
  EXPECT_FALSE(plan.plan.schemes.contains("conv1"));
  EXPECT_FALSE(plan.plan.schemes.contains("gemm"));
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_EQ(plan.notes[0], "no node of the model is called pool");
  // What is not named is TensorRT's own choice.
  EXPECT_EQ(kept("conv1:fp32,gemm:fp16,relu1:fp8"), (Names{"/block/conv2", "/block/add", "flatten"}));
  EXPECT_TRUE(says(error_of("--layerPrecisions=conv1"), "'conv1' found"));
  EXPECT_TRUE(says(error_of("--layerPrecisions="), "without a layer"));
}

TEST(Dialects, ExclusionsComeBackAsTheyWent) {
  ForeignPlan plan;
  plan.plan = uniform_plan(model(), Scheme::kInt8, {"/block/conv2", "gemm"});
  for (const Dialect dialect :
       {Dialect::kSeqto, Dialect::kOnnxruntime, Dialect::kNncf, Dialect::kTensorrt, Dialect::kQuark}) {
    const PlanText written = write_plan(plan, dialect, model());
    EXPECT_TRUE(written.notes.empty());
    EXPECT_EQ(detect_dialect(written.text), dialect) << written.text;
    EXPECT_EQ(read(written.text).plan, plan.plan) << written.text;
  }
  EXPECT_EQ(
      write_plan(plan, Dialect::kTensorrt, model()).text,
      "--int8 --precisionConstraints=obey --layerPrecisions=conv1:int8,relu1:int8,/block/conv2:fp32,/block/add:int8,"
      "flatten:int8,gemm:fp32\n");
}

TEST(Dialects, WhatHasNoWordStaysFloatAndIsSaid) {
  ForeignPlan plan;
  plan.plan = uniform_plan(model(), Scheme::kInt8);
  plan.plan.schemes["gemm"] = Scheme::kFloat16;
  plan.plan.schemes["conv1"] = Scheme::kInt8Weights;
  const PlanText list = write_plan(plan, Dialect::kQuark, model());
  EXPECT_EQ(kept(list.text), (Names{"relu1", "/block/conv2", "/block/add", "flatten"}));
  EXPECT_EQ(list.notes.size(), 2U);
  const PlanText precisions = write_plan(plan, Dialect::kTensorrt, model());
  EXPECT_TRUE(says(precisions.text, "--int8 --fp16 "));
  EXPECT_TRUE(says(precisions.text, "conv1:fp32"));
  EXPECT_TRUE(says(precisions.text, "gemm:fp16"));
  EXPECT_EQ(precisions.notes.size(), 1U);
  try {
    write_plan(plan, Dialect::kAimet, model());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_TRUE(says(error.what(), "--quantized"));
  }
}

// conv1 and gemm are float, the block between is quantized, per channel in conv2.
Model quantized() {
  Ranges ranges;
  for (const char* tensor : {"x", "a", "b", "c", "d", "e", "y"}) ranges[tensor] = {-2, 6};
  QuantizeOptions options;
  options.activation_type = DataType::kUint8;
  options.per_channel = true;
  Plan plan;
  plan.schemes = {{"/block/conv2", Scheme::kInt8}, {"/block/add", Scheme::kInt8}};
  return Quantizer(model(), ranges, options).quantize(plan);
}

TEST(Encodings, AreThoseOfTheQuantizedModel) {
  const TensorOverrides found = encodings_of(model(), quantized());
  ASSERT_TRUE(found.contains("w2"));
  EXPECT_FALSE(found.contains("w1"));
  EXPECT_FALSE(found.contains("w3"));
  const auto& weight = found.at("w2");
  ASSERT_EQ(weight.size(), 2U);
  EXPECT_EQ(weight[0].quant_type, DataType::kInt8);
  EXPECT_EQ(weight[0].axis, 0);
  EXPECT_FLOAT_EQ(*weight[1].scale, 4 / 127.0f);
  EXPECT_EQ(weight[1].zero_point, 0);
  for (const char* tensor : {"b", "c", "d", "a"}) {
    ASSERT_TRUE(found.contains(tensor)) << tensor;
    EXPECT_EQ(found.at(tensor)[0].quant_type, DataType::kUint8);
    EXPECT_FLOAT_EQ(*found.at(tensor)[0].scale, 8 / 255.0f);
    EXPECT_EQ(found.at(tensor)[0].zero_point, 64);
  }
}

TEST(Encodings, WithoutZeroPointAreOfTheTypeOfTheCodes) {
  Model without = quantized();
  for (Node& node : without.graph.nodes)
    if (node.op_type == "DequantizeLinear" && node.inputs[0].starts_with("w2")) node.inputs.resize(2);
  EXPECT_EQ(encodings_of(model(), without).at("w2")[0].quant_type, DataType::kInt8);
}

TEST(Encodings, GoThroughAimetAndOnnxruntime) {
  ForeignPlan plan;
  plan.plan.schemes = {{"/block/conv2", Scheme::kInt8}, {"/block/add", Scheme::kInt8}};
  plan.encodings = encodings_of(model(), quantized());
  for (const Dialect dialect : {Dialect::kAimet, Dialect::kOnnxruntime}) {
    const PlanText written = write_plan(plan, dialect, model());
    EXPECT_EQ(detect_dialect(written.text), dialect);
    const ForeignPlan back = read(written.text);
    Names layers{"/block/conv2", "/block/add"};
    // Encodings are of tensors: a node that stands between two, or hands one on, counts too.
    if (dialect == Dialect::kAimet) layers = {"relu1", "/block/conv2", "/block/add", "flatten"};
    EXPECT_EQ(int8_layers(back), layers) << written.text;
    ASSERT_EQ(back.encodings.size(), plan.encodings.size());
    for (const auto& [tensor, entries] : plan.encodings) {
      const auto& again = back.encodings.at(tensor);
      ASSERT_EQ(again.size(), entries.size());
      EXPECT_EQ(again[0].axis, entries[0].axis) << tensor;
      for (size_t c = 0; c < entries.size(); ++c) {
        EXPECT_EQ(again[c].scale, entries[c].scale);
        EXPECT_EQ(again[c].zero_point, entries[c].zero_point);
        EXPECT_EQ(again[c].quant_type, entries[c].quant_type);
      }
    }
  }
}

TEST(Encodings, OlderAimetCountsFromUnsignedCodes) {
  // The offset of a code: -64 for uint8; 0 of int8 is -128.
  const ForeignPlan old = read(R"({"version": "0.6.1",
    "activation_encodings": {
      "b": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "max": 6, "min": -2, "offset": -64, "scale": 0.03}],
      "c": [{"bitwidth": 16, "dtype": "int", "is_symmetric": "False", "max": 6, "min": -2, "offset": -9, "scale": 0.01}],
      "d": [{"bitwidth": 16, "dtype": "float"}]},
    "param_encodings": {
      "w2": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "offset": -128, "scale": 0.02},
             {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "offset": -128, "scale": 0.04}],
      "bias": [{"bitwidth": 32, "dtype": "int", "is_symmetric": "True", "offset": 0, "scale": 0.1}]}})");
  EXPECT_EQ(old.encodings.at("b")[0].zero_point, 64);
  EXPECT_EQ(old.encodings.at("c")[0].quant_type, DataType::kUint16);
  EXPECT_EQ(old.encodings.at("w2")[1].zero_point, 0);
  EXPECT_EQ(old.encodings.at("w2")[1].quant_type, DataType::kInt8);
  EXPECT_EQ(old.encodings.at("w2")[0].axis, 0);
  EXPECT_FALSE(old.encodings.contains("d"));
  EXPECT_FALSE(old.encodings.contains("bias"));
  EXPECT_EQ(old.plan.schemes, (std::map<LayerId, Scheme>{{"/block/conv2", Scheme::kInt8}}));

  const ForeignPlan one = read(R"({"version": "1.0.0", "excluded_layers": ["conv1"],
    "activation_encodings": [
      {"name": "b", "dtype": "INT", "bw": 16, "is_sym": false, "enc_type": "PER_TENSOR", "scale": [0.03], "offset": [-64]},
      {"name": "c", "dtype": "INT", "bw": 16, "is_sym": false, "enc_type": "PER_TENSOR", "scale": [0.03], "offset": [-64]}],
    "param_encodings": [
      {"name": "w2", "dtype": "INT", "bw": 8, "is_sym": true, "enc_type": "PER_CHANNEL", "scale": [0.1, 0.2],
       "offset": [-128, -128]},
      {"name": "w3", "dtype": "INT", "bw": 8, "is_sym": true, "enc_type": "PER_TENSOR", "scale": [0.1], "offset": [-128]},
      {"name": "w1", "dtype": "INT", "bw": 4, "is_sym": true, "enc_type": "LPBQ", "scale": [0.1], "offset": [-8]}]})");
  EXPECT_EQ(one.plan.schemes,
            (std::map<LayerId, Scheme>{{"/block/conv2", Scheme::kInt8wInt16a}, {"gemm", Scheme::kInt8Weights}}));
  EXPECT_EQ(one.notes.size(), 3U);  // the blocks of w1, the excluded layers, the scale of w3
  EXPECT_TRUE(says(error_of(R"({"version": "2.0.0", "encodings": [
      {"name": "w1", "output_dtype": "int8", "y_scale": [0.1, 0.2], "y_zero_point": [0]}]})"),
                   "2 scales and 1 offsets found"));
}

TEST(Encodings, OfAimetThatAreNotTakenOverAreNoted) {
  const auto entry = [](const char* tensor, const char* type) {
    return fmt::format(R"({{"name": "{}", "output_dtype": "{}", "y_scale": 0.1, "y_zero_point": 0}})", tensor, type);
  };
  const auto read_entries = [](const std::vector<std::string>& entries) {
    return read(fmt::format(R"({{"version": "2.0.0", "encodings": [{}]}})", fmt::join(entries, ", ")));
  };
  const auto only_note = [](const ForeignPlan& plan) { return plan.notes.size() == 1 ? plan.notes[0] : std::string(); };

  const ForeignPlan alone = read_entries({entry("w3", "int8")});
  EXPECT_EQ(alone.plan.schemes, (std::map<LayerId, Scheme>{{"gemm", Scheme::kInt8Weights}}));
  EXPECT_TRUE(says(only_note(alone), "the scales of 1 layers' weights are not taken over")) << only_note(alone);
  const ForeignPlan wide = read_entries({entry("w3", "int16")});
  EXPECT_TRUE(wide.plan.schemes.empty());
  EXPECT_TRUE(says(only_note(wide), "layer 'gemm' stays float")) << only_note(wide);
  const ForeignPlan open = read_entries({entry("w3", "int8"), entry("e", "int8")});
  EXPECT_EQ(open.plan.schemes, (std::map<LayerId, Scheme>{{"gemm", Scheme::kInt8}}));
  EXPECT_TRUE(says(only_note(open), "the output 'y' has no encoding")) << only_note(open);
  EXPECT_TRUE(read_entries({entry("w3", "int8"), entry("e", "int8"), entry("y", "int8")}).notes.empty());
}

}  // namespace
}  // namespace seqto
