#include <gtest/gtest.h>

#include "seqto/model.h"

namespace seqto {
namespace {

TEST(LiftConstants, EveryKindOfValue) {
  Model model = parse_model_text(R"(
      <ir_version: 3, opset_import: ["" : 13]>
      g (float[2] x) => (float[2] y, float[1] k) {
        a = Constant <value = float[2] {1, 2}> ()
        b = Constant <value_float = 3.0> ()
        c = Constant <value_ints = [4, 5]> ()
        k = Constant <value = float[1] {6}> ()
        s = Constant <value_string = "text"> ()
        t = Add(x, a)
        u = Mul(t, b)
        v = Reshape(u, c)
        y = Identity(v)
      })");
  EXPECT_EQ(lift_constants(model), 3);
  EXPECT_EQ(model.graph.nodes.size(), 6u) << "an output of the graph and a string stay";
  EXPECT_EQ(model.graph.initializer("a")->values<float>()[1], 2);
  EXPECT_TRUE(model.graph.initializer("b")->dims().empty());
  EXPECT_EQ(model.graph.initializer("b")->values<float>()[0], 3);
  EXPECT_EQ(model.graph.initializer("c")->values<int64_t>()[1], 5);
  EXPECT_EQ(model.ir_version, 4);
  EXPECT_NO_THROW(check_model(model));
  EXPECT_EQ(lift_constants(model), 0);
}

}  // namespace
}  // namespace seqto
