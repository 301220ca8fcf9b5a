#include "model/unneeded.h"

#include <gtest/gtest.h>

#include "seqto/model.h"

namespace seqto {
namespace {

const char* kResize = R"(
  <ir_version: 7, opset_import: ["" : 11]>
  g (float[1,2,4,4] x, int64[4] sizes) => (float[N,C,H,W] y)
  <float[0] none = {}> {
    empty = Constant <value = float[0] {}> ()
    y = Resize <mode = "nearest"> (x, none, empty, sizes)
  })";

TEST(AbsentInputs, ResizeLosesItsEmptyConstantsAboveOpset12) {
  const Model model = parse_model_text(kResize);
  const Node resize = convert_opset(model, 13).graph.nodes.back();
  EXPECT_EQ(resize.inputs, (std::vector<std::string>{"x", "", "", "sizes"}));
  EXPECT_EQ(convert_opset(model, 12).graph.nodes.back().inputs[2], "empty") << "not optional there";
}

TEST(AbsentInputs, ConstantsWithElementsAndOtherOperatorsKeepTheirs) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[1,2,4,4] x) => (float[N,C,H,W] y, float[R] z)
    <float[0] none = {}, float[4] scales = {1,1,2,2}, int64[0] axes = {}> {
      y = Resize <mode = "nearest"> (x, none, scales)
      z = ReduceSum <noop_with_empty_axes = 1> (x, axes)
    })");
  EXPECT_EQ(internal::drop_empty_inputs(model), 1);
  EXPECT_EQ(model.graph.nodes[0].inputs, (std::vector<std::string>{"x", "", "scales"}));
  EXPECT_EQ(model.graph.nodes[1].inputs[1], "axes") << "no axes are a value there";
}

TEST(AbsentInputs, BodiesReadConstantsFromOutside) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (bool c, float[1,2,4,4] x, int64[4] sizes) => (float[N,C,H,W] y)
    <float[0] none = {}> {
      y = If (c) <
        then_branch = a () => (float[N,C,H,W] p) { p = Resize <mode = "nearest"> (x, none, none, sizes) },
        else_branch = b () => (float[N,C,H,W] q) { q = Identity (x) }
      >
    })");
  EXPECT_EQ(internal::drop_empty_inputs(model), 2);
  const auto& body = std::get<OpaqueAttribute>(model.graph.nodes[0].attributes[0].value);
  EXPECT_EQ(body.captures, (std::vector<std::string>{"x", "sizes"}));
}

// Attributes that the converter makes initializers of: IR version 3 wants those among the inputs.
TEST(ConvertOpset, InitializersThatItMakesAreTaken) {
  const Model model = parse_model_text(R"(
    <ir_version: 3, opset_import: ["" : 9]>
    g (float[1,2,4,4] x) => (float[1,2,6,6] y) { y = Pad <pads = [0,0,1,1,0,0,1,1]> (x) })");
  const Model converted = convert_opset(model, 13);
  EXPECT_GE(converted.ir_version, 4);
  EXPECT_NO_THROW(check_model(converted));
}

}  // namespace
}  // namespace seqto
