#include "quantization/calibration/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;
using internal::border_of;
using internal::Frontier;

// A shortcut over two layers, a layer with codes before it, a Split, and a mask that is made of no input.
Model branches() {
  return with_weights(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,5,5] x) => (float[1,2,5,5] y, float[1,4,5,5] side)
    <float scale = {0.02}, uint8 zero = {128}, int64[2] parts = {2, 2}, int8 one = {1}, float step = {0.5}, int8 origin = {0}> {
      a = Conv <pads = [1,1,1,1]> (x, w0, b0)
      r = Relu(a)
      q = QuantizeLinear(r, scale, zero)
      d = DequantizeLinear(q, scale, zero)
      b = Conv <group = 4, pads = [1,1,1,1]> (d, w1)
      s = Relu(b)
      c = Conv(s, w2, b2)
      factor = DequantizeLinear(one, step, origin)
      e = Mul(c, factor)
      f = Add(e, d)
      side = Sigmoid(s)
      g0, g1 = Split <axis = 1> (f, parts)
      y = Sub(g0, g1)
    })");
}

const Node& producer(const Model& model, const std::string& tensor) {
  for (const Node& n : model.graph.nodes)
    if (std::ranges::find(n.outputs, tensor) != n.outputs.end()) return n;
  throw std::out_of_range(tensor);
}

std::unordered_set<LayerId> producers(const Model& model, std::initializer_list<const char*> tensors) {
  std::unordered_set<LayerId> names;
  for (const char* t : tensors) names.insert(producer(model, t).name);
  return names;
}

std::vector<std::string> border(const Model& model, std::initializer_list<const char*> open) {
  std::vector<std::string> names;
  for (const auto& t : border_of(model, producers(model, open))) names.push_back(t.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Border, HoldsWhatOpenNodesReadOfTheOthers) {
  const Model model = branches();
  EXPECT_EQ(border(model, {"a"}), Names{}) << "only the model's input";
  // Codes, not what is made of them; nothing of the branch that no open layer needs.
  EXPECT_EQ(border(model, {"b"}), Names{"q"});
  EXPECT_EQ(border_of(model, producers(model, {"b"}))[0].type, DataType::kUint8);
  EXPECT_EQ(border(model, {"c"}), Names{"s"});
  // The constant that is dequantized is none, and both sides of the shortcut are.
  EXPECT_EQ(border(model, {"f"}), (Names{"q", "e"}));
  EXPECT_EQ(border(model, {"y"}), (Names{"g0", "g1"}));
  EXPECT_EQ(border(model, {}), Names{});
}

class FrontierTest : public RewriteTest {
 protected:
  // The runner itself; the nodes that sessions were made of are counted.
  class Counting : public Runner {
   public:
    explicit Counting(Runner& inner) : inner_(inner) {}
    std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
      loaded.push_back(model.graph.nodes.size());
      return inner_.load(model, options);
    }
    std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
      return inner_.load_file(path, options);
    }
    Model optimized(const Model& model) override { return inner_.optimized(model); }
    std::string description() const override { return inner_.description(); }
    std::vector<size_t> loaded;

   private:
    Runner& inner_;
  };

  std::vector<std::vector<Tensor>> directly(Model model, const std::string& tensor) {
    data(model);
    model.graph.outputs = {{tensor, DataType::kFloat, {}, ""}};
    auto session = runner_->load(model);
    std::vector<std::vector<Tensor>> result;
    for (int64_t i : samples_) result.push_back(session->run(data_->read(i).inputs));
    return result;
  }

  void expect_values(Frontier& frontier, const Model& model, const std::string& tensor,
                     const std::unordered_set<LayerId>& open) {
    const auto wanted = directly(model, tensor);
    frontier.advance(model, {tensor}, open);
    for (size_t s = 0; s < samples_.size(); ++s) {
      const auto found = frontier.run(s, data_->read(samples_[s]).inputs);
      ASSERT_EQ(found.size(), 1u);
      const auto a = wanted[s][0].values<float>(), b = found[0].values<float>();
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(a[i]))) << tensor;
    }
  }
};

TEST_F(FrontierTest, GivesWhatTheWholeModelGives) {
  for (int64_t bytes : {int64_t{0}, int64_t{700} * kSamples, int64_t{1} << 30}) {
    Model model = branches();
    Counting runner(*runner_);
    Frontier frontier(runner, samples_.size(), bytes);
    expect_values(frontier, model, "a", producers(model, {"b", "c", "f", "y"}));
    expect_values(frontier, model, "d", producers(model, {"b", "c", "f", "y"}));
    // An open layer becomes another, as one that was learned does.
    for (Initializer& i : model.graph.initializers)
      if (i.name == "w1") i.tensor = float_tensor({4, 1, 3, 3}, values(4, 9, 77));
    expect_values(frontier, model, "s", producers(model, {"c", "f", "y"}));
    expect_values(frontier, model, "c", producers(model, {"f", "y"}));
    expect_values(frontier, model, "f", producers(model, {"y"}));
    expect_values(frontier, model, "y", {});
    const size_t nodes = model.graph.nodes.size(), last = runner.loaded.back();
    // Sub alone where all can be kept; whatever fits in between; all that leads to it where nothing can.
    if (bytes == 0) EXPECT_EQ(last, nodes - 1);
    else if (bytes < 1 << 30) EXPECT_LT(last, nodes - 1);
    else EXPECT_EQ(last, 1u);
  }
}

TEST_F(FrontierTest, ATensorThatIsKeptCanBeAskedForAgain) {
  const Model model = branches();
  Frontier frontier(*runner_, samples_.size(), 1 << 30);
  const auto open = producers(model, {"c", "y"});
  expect_values(frontier, model, "s", open);
  expect_values(frontier, model, "s", open);
  expect_values(frontier, model, "e", producers(model, {"y"}));
}

}  // namespace
}  // namespace seqto
