// What every Runner has to do, one suite for all of them. A runner more is a line in kRunners.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "base/subprocess.h"
#include "seqto/error.h"
#include "seqto/runner.h"
#include "testing/fake_link.h"

namespace seqto {
namespace {

struct Subject {
  std::string name;
  std::function<std::unique_ptr<Runner>(RunnerOptions, const Env&)> make;  // throws kUnavailable: skipped
  bool has_timeouts = false, can_cancel = true;
  bool open_shapes = true;  // inputs may have another shape in every run
  bool runs_loops = true;
};

void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

// Beside the build's executables, so that each model is compiled once for all tests.
void use_tvm_cache() {
  auto cache = std::filesystem::path(SEQTO_BINARY).parent_path().parent_path() / "tvm-cache";
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

// A server that ends with the test.
std::string tvm_server() {
  static Subprocess server({tvm_executable(), "serve", "--port", "0", "--key", "test"});
  static std::string greeting;
  while (greeting.find('\n') == std::string::npos && server.running()) {
    read_available(server.output(), greeting);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string address = greeting.substr(0, greeting.find(" key"));
  return address.substr(address.rfind(' ') + 1);  // "listening on HOST:PORT key test"
}

std::string openvino_library() {
  std::filesystem::path folder = std::filesystem::path(SEQTO_SOURCE_DIR) / ".deps/openvino";
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("libonnxruntime.so")) return entry.path();
  throw Error(Code::kUnavailable, "no onnxruntime-openvino in .deps/openvino; `tools/setup.sh test` brings it");
}

// What the others are held to: every node computed as it is written.
class Reference : public Runner {
 public:
  Reference(const RunnerOptions& options, const Env& env) : runner_(make_runner("cpu", options, env)) {}
  std::unique_ptr<Session> load(const Model& model, const SessionOptions&) override {
    return runner_->load(model, kAsWritten);
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions&) override {
    return runner_->load_file(path, kAsWritten);
  }
  Model optimized(const Model& model) override { return runner_->optimized(model); }
  std::string description() const override { return runner_->description(); }

 private:
  static constexpr SessionOptions kAsWritten{SessionOptions::Optimization::kNone};
  std::unique_ptr<Runner> runner_;
};

const std::vector<Subject> kRunners{
    {"Reference", [](RunnerOptions o, const Env& env) { return std::make_unique<Reference>(o, env); }},
    {"OnnxruntimeInProcess", [](RunnerOptions o, const Env& env) { return make_runner("cpu", o, env); }},
    {"OnnxruntimeInWorker",
     [](RunnerOptions o, const Env& env) {
       o.isolated = true;
       o.worker = SEQTO_BINARY;
       return make_runner("cpu", o, env);
     },
     true},
    {"OnnxruntimeInTwoWorkers",
     [](RunnerOptions o, const Env& env) {
       o.isolated = true;
       o.workers = 2;
       o.worker = SEQTO_BINARY;
       return make_runner("cpu", o, env);
     },
     true},
    {"OnnxruntimeBehindALink",
     [](RunnerOptions o, const Env& env) {
       static const FakeLink link(SEQTO_BINARY);
       return make_runner("adb:board", o, env);
     },
     false},  // a time that runs out is the model's fault there: link_runner_test.cc
    {"OpenvinoInWorker",
     [](RunnerOptions o, const Env& env) {
       o.isolated = true;
       o.worker = SEQTO_BINARY;
       o.library = openvino_library();
       return make_runner("openvino", o, env);
     },
     false, false, false},  // it takes neither the Loop that those tests run nor empty tensors
    {"TvmInWorker",
     [](RunnerOptions o, const Env& env) {
       use_tvm_cache();
       return make_runner("tvm:llvm", o, env);
     },
     true, false, false, false},
    {"TvmBehindALink",
     [](RunnerOptions o, const Env& env) {
       use_tvm_cache();
       return make_runner("tvm+rpc:" + tvm_server() + ":test:llvm", o, env);
     },
     false, false, false},
};

class RunnerContract : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    try {
      runner_ = GetParam().make({}, {});
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable) throw;
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Runner> runner_;
};

Code code_of(const std::function<void()>& f, std::string* message = nullptr) {
  try {
    f();
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "no Error";
  return Code::kInternal;
}

// y = 2 x + w for w = 0, 1, 2 ...; s = sum(x)
Model doubler(int64_t n) {
  std::string size = std::to_string(n);
  Model model = parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> doubler (float[1," + size +
                                 "] x) => (float[1," + size + "] y, float[1] s) <float[1] two = {2}> {" +
                                 "d = Mul(x, two) y = Add(d, w) s = ReduceSum<keepdims = 0>(x, axis) }");
  std::vector<float> w(static_cast<size_t>(n));
  std::iota(w.begin(), w.end(), 0.0f);
  model.graph.initializers.push_back({"w", float_tensor({n}, std::move(w))});
  model.graph.initializers.push_back({"axis", int64_tensor({1}, {1})});
  return model;
}

std::vector<Tensor> ramp(int64_t n, float start) {
  std::vector<float> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), start);
  return {float_tensor({1, n}, std::move(x))};
}

void expect_doubled(const std::vector<Tensor>& outputs, int64_t n, float start) {
  ASSERT_EQ(outputs.size(), 2u);
  ASSERT_EQ(outputs[0].dims(), (std::vector<int64_t>{1, n}));
  ASSERT_EQ(outputs[1].dims(), (std::vector<int64_t>{1}));
  auto y = outputs[0].values<float>();
  for (int64_t i = 0; i < n; ++i)
    ASSERT_FLOAT_EQ(y[static_cast<size_t>(i)], 2 * (start + static_cast<float>(i)) + static_cast<float>(i));
  double sum = static_cast<double>(n) * start + 0.5 * static_cast<double>(n) * static_cast<double>(n - 1);
  EXPECT_NEAR(outputs[1].values<float>()[0], sum, 1e-4 * std::abs(sum) + 1e-4);
}

// Counts up without an end.
Model endless() {
  return parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> endless (float[4] x) => (float[4] y)
    <int64 trips = {9223372036854775807}, bool go = {1}> {
      y = Loop (trips, go, x) <body = body (int64 i, bool before, float[4] a) => (bool after, float[4] b) {
        after = Identity(before)
        b = Sin(a)
      }>
    })");
}
// For runners that have no loops: a product of matrices that takes far longer than a test waits.
constexpr int64_t kSide = 2048;
Model slow() {
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.graph.name = "slow";
  std::vector<Dimension> dims{{kSide, ""}, {kSide, ""}};
  model.graph.inputs = {{"x", DataType::kFloat, dims, ""}};
  model.graph.outputs = {{"y", DataType::kFloat, dims, ""}};
  std::string left = "x";
  for (int i = 0; i < 12; ++i) {
    std::string product = i == 11 ? "y" : fmt::format("p{}", i);
    model.graph.nodes.push_back({"n_" + product, "MatMul", "", {left, "x"}, {product}, {}, {}});
    left = product;
  }
  return model;
}
std::vector<Tensor> square() {
  return {float_tensor({kSide, kSide}, std::vector<float>(static_cast<size_t>(kSide * kSide), 1.0f / kSide))};
}

const std::vector<Tensor> kFour{float_tensor({4}, {1, 2, 3, 4})};

TEST_P(RunnerContract, SaysWhatItIs) {
  EXPECT_FALSE(runner_->description().empty());
  EXPECT_GE(runner_->threads(), 1);
}

TEST_P(RunnerContract, TellsItsMemory) {
  ProcessMemory memory = runner_->memory();
  EXPECT_GT(memory.resident_bytes, 0);
  EXPECT_GE(memory.peak_bytes, memory.resident_bytes);
}

TEST_P(RunnerContract, SmallAndBigTensorsComeBackRight) {
  for (int64_t n : {1, 7, 255, 256, 257, 5000, 150000}) {
    auto session = runner_->load(doubler(n));
    EXPECT_EQ(session->input_names(), std::vector<std::string>{"x"});
    EXPECT_EQ(session->output_names(), (std::vector<std::string>{"y", "s"}));
    for (float start : {0.0f, 0.5f, -3.0f}) expect_doubled(session->run(ramp(n, start)), n, start);
  }
}

TEST_P(RunnerContract, TypesShapesAndEmptyTensors) {
  if (!GetParam().open_shapes) GTEST_SKIP() << GetParam().name << " compiles for one shape of each input";
  auto session = runner_->load(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    types (int64[2] a, bool[n] b, float[0,3] c, int8 d) => (int64[2] e, bool[n] f, float[0,3] g, int8 h) {
      e = Neg(a) f = Not(b) g = Neg(c) h = Identity(d) })"));
  auto outputs = session->run(std::vector<Tensor>{
      int64_tensor({2}, {5, -9'000'000'000}), Tensor::from<uint8_t>(DataType::kBool, {3}, {1, 0, 1}),
      float_tensor({0, 3}, {}), Tensor::from<int8_t>(DataType::kInt8, {}, {-7})});
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_TRUE(outputs[0].equals(int64_tensor({2}, {-5, 9'000'000'000})));
  EXPECT_TRUE(outputs[1].equals(Tensor::from<uint8_t>(DataType::kBool, {3}, {0, 1, 0})));
  EXPECT_TRUE(outputs[2].equals(float_tensor({0, 3}, {})));
  EXPECT_TRUE(outputs[3].equals(Tensor::from<int8_t>(DataType::kInt8, {}, {-7})));
}

TEST_P(RunnerContract, ManyRunsAreAsSingleOnes) {
  auto session = runner_->load(doubler(600));
  std::vector<std::vector<Tensor>> samples;
  for (float start : {0.0f, 1.0f, -5.0f, 2.5f}) samples.push_back(ramp(600, start));
  auto results = session->run_many(samples);
  ASSERT_EQ(results.size(), 4u);
  for (size_t i = 0; i < results.size(); ++i) {
    expect_doubled(results[i].outputs, 600, samples[i][0].values<float>()[0]);
    EXPECT_GT(results[i].ns, 0);
  }
  EXPECT_TRUE(session->run_many({}).empty());
}

TEST_P(RunnerContract, AFileGivesWhatTheModelGives) {
  auto path = std::filesystem::temp_directory_path() / ("seqto_contract_" + GetParam().name + ".onnx");
  save_model(doubler(600), path);
  expect_doubled(runner_->load_file(path.string())->run(ramp(600, 1)), 600, 1);
  std::filesystem::remove(path);
}

TEST_P(RunnerContract, ModelsMayShareWeights) {
  Model first = doubler(5000), second = first;
  second.graph.name = "another";
  auto a = runner_->load(first), b = runner_->load(second);
  first = {};
  second = {};
  expect_doubled(a->run(ramp(5000, 1)), 5000, 1);
  a.reset();
  expect_doubled(b->run(ramp(5000, 2)), 5000, 2);
}

TEST_P(RunnerContract, ABadModelIsAnErrorAndTheRunnerGoesOn) {
  Model dangling = doubler(600);
  std::erase_if(dangling.graph.initializers, [](const Initializer& i) { return i.name == "w"; });
  std::string message;
  EXPECT_EQ(code_of([&] { runner_->load(dangling); }, &message), Code::kInvalidInput);
  EXPECT_NE(message.find("'w'"), std::string::npos) << message;
  Model unknown = doubler(600);
  unknown.graph.nodes[0].op_type = "Frobnicate";
  EXPECT_EQ(code_of([&] { runner_->load(unknown); }, &message), Code::kInvalidInput);
  EXPECT_NE(message.find("Frobnicate"), std::string::npos) << message;
  EXPECT_EQ(code_of([&] { runner_->load_file("/nowhere/model.onnx"); }), Code::kInvalidInput);
  expect_doubled(runner_->load(doubler(600))->run(ramp(600, 1)), 600, 1);
}

TEST_P(RunnerContract, WrongInputsAreErrorsAndTheSessionGoesOn) {
  auto session = runner_->load(doubler(600));
  EXPECT_EQ(code_of([&] { session->run({}); }), Code::kInvalidInput);
  EXPECT_EQ(code_of([&] { session->run(std::vector<Tensor>{ramp(600, 0)[0], ramp(600, 0)[0]}); }), Code::kInvalidInput);
  EXPECT_EQ(code_of([&] { session->run(ramp(601, 0)); }), Code::kInvalidInput);
  EXPECT_EQ(code_of([&] { session->run(std::vector<Tensor>{int64_tensor({1}, {1})}); }), Code::kInvalidInput);
  expect_doubled(session->run(ramp(600, 1)), 600, 1);
}

TEST_P(RunnerContract, LatencyIsWithinWhatTheCallTook) {
  auto session = runner_->load(doubler(150000));
  auto inputs = ramp(150000, 0);
  session->run(inputs);
  auto start = std::chrono::steady_clock::now();
  TimedOutputs timed = session->run_timed(inputs);
  std::vector<int64_t> times = session->time(inputs, 5);
  int64_t all = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  expect_doubled(timed.outputs, 150000, 0);
  ASSERT_EQ(times.size(), 5u);
  for (int64_t ns : times) EXPECT_GT(ns, 0);
  EXPECT_GT(timed.ns, 0);
  EXPECT_LE(std::accumulate(times.begin(), times.end(), timed.ns), all);
  EXPECT_TRUE(session->time(inputs, 0).empty());
}

TEST_P(RunnerContract, OutputsOutliveEverything) {
  std::vector<Tensor> kept;
  {
    auto session = runner_->load(doubler(5000));
    kept = session->run(ramp(5000, 1));
    session->run(ramp(5000, 2));
  }
  runner_.reset();
  expect_doubled(kept, 5000, 1);
}

// As in a model that was cut open where it ends. Not every version of the runtime takes one.
TEST_P(RunnerContract, OutputsThatAreInputsOutliveThem) {
  constexpr int64_t kCount = 5000;
  std::vector<Tensor> kept;
  {
    std::unique_ptr<Session> session;
    try {
      session = runner_->load(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
        g (float[5000] x) => (float[5000] x, float[5000] y) { y = Add(x, x) })"));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    std::vector<float> memory(kCount, 3.0f);
    const std::shared_ptr<const void> nobody;
    kept = session->run(std::vector{Tensor(DataType::kFloat, {kCount}, nobody, std::as_bytes(std::span(memory)))});
    std::ranges::fill(memory, -1.0f);  // as whoever gets it next
  }
  runner_.reset();
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(std::ranges::count(kept[0].values<float>(), 3.0f), kCount);
  EXPECT_EQ(kept[1].values<float>()[kCount - 1], 6.0f);
}

TEST_P(RunnerContract, TwoSessionsAtOnce) {
  const Model model = doubler(3000);  // libonnx's parser fills its tables where ThreadSanitizer sees no lock
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      auto session = runner_->load(model);
      for (int i = 0; i < 50; ++i) {
        float start = static_cast<float>(t * 100 + i);
        right += session->run(ramp(3000, start))[0].values<float>()[10] == 2 * (start + 10) + 10;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 100);
}

TEST_P(RunnerContract, TheOptimizedModelGivesTheSame) {
  Model optimized;
  try {
    optimized = runner_->optimized(doubler(600));
  } catch (const Error& error) {
    if (error.code() != Code::kUnavailable) throw;
    GTEST_SKIP() << error.what();
  }
  expect_doubled(runner_->load(optimized)->run(ramp(600, 1)), 600, 1);
}

TEST_P(RunnerContract, AnObserverSeesInnerTensors) {
  struct Sum : Observer {
    void observe(size_t tensor, DataType, std::span<const std::byte> values) override {
      EXPECT_EQ(tensor, 0u);
      count += values.size() / sizeof(float);
      for (size_t i = 0; i < values.size() / sizeof(float); ++i) {
        float v;
        std::memcpy(&v, values.data() + i * sizeof v, sizeof v);
        sum += v;
      }
    }
    double sum = 0;
    size_t count = 0;
  } observer;
  std::vector<std::string> names{"d"};
  Model model = infer_shapes(doubler(4));
  auto session = runner_->load_observed(model, names, observer, {SessionOptions::Optimization::kNone});
  expect_doubled(session->run(ramp(4, 1)), 4, 1);
  EXPECT_EQ(observer.count, 4u);
  EXPECT_EQ(observer.sum, 20);
}

TEST_P(RunnerContract, CancelEndsTheRunAndNothingElse) {
  if (!GetParam().can_cancel) GTEST_SKIP() << GetParam().name << " cannot be stopped";
  auto session = runner_->load(endless()), other = runner_->load(doubler(4));
  other->cancel();  // nothing is under way
  expect_doubled(other->run(ramp(4, 1)), 4, 1);
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> done{false};
    std::thread canceller([&] {
      while (!done) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        session->cancel();
      }
    });
    EXPECT_EQ(code_of([&] { session->run(kFour); }), Code::kInterrupted);
    done = true;
    canceller.join();
  }
  expect_doubled(other->run(ramp(4, 1)), 4, 1);
}

TEST_P(RunnerContract, ARunThatTakesTooLongIsAnErrorAndTheRunnerGoesOn) {
  if (!GetParam().has_timeouts) GTEST_SKIP() << GetParam().name << " has no timeouts";
  RunnerOptions options;
  options.run_timeout_seconds = 2;
  auto runner = GetParam().make(options, {});
  const bool loops = GetParam().runs_loops;
  auto session = runner->load(loops ? endless() : slow());
  const std::vector<Tensor> inputs = loops ? kFour : square();
  std::string message;
  EXPECT_EQ(code_of([&] { session->run(inputs); }, &message), Code::kUnavailable);
  EXPECT_NE(message.find("within 2 s"), std::string::npos) << message;
  EXPECT_EQ(code_of([&] { session->run(inputs); }), Code::kUnavailable);
  expect_doubled(runner->load(doubler(600))->run(ramp(600, 1)), 600, 1);
}

INSTANTIATE_TEST_SUITE_P(All, RunnerContract, testing::ValuesIn(kRunners),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace seqto
