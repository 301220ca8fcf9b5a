// Workers behind a link, by a fake adb: what crosses it, what happens when it breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "seqto/error.h"
#include "seqto/runner.h"
#include "testing/fake_link.h"

namespace seqto {
namespace {

// y = x + w + `added`, with w of 20 kB.
Model adder(float added) {
  Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[5000] x) => (float[5000] y) { t = Add(x, w)  y = Add(t, a) })");
  std::vector<float> weights(5000);
  std::iota(weights.begin(), weights.end(), 0.0f);
  model.graph.initializers.push_back({"w", float_tensor({5000}, weights)});
  model.graph.initializers.push_back({"a", float_tensor({1}, {added})});
  return model;
}
Model small(const std::string& name) {
  Model model =
      parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Neg(x) })");
  model.graph.name = name;
  return model;
}
std::vector<Tensor> ones() { return {float_tensor({5000}, std::vector<float>(5000, 1))}; }

class LinkRunner : public testing::Test {
 protected:
  LinkRunner() {
    env_.log = [this](LogLevel, std::string_view line) {
      std::lock_guard lock(mutex_);
      log_ += std::string(line) + "\n";
    };
    options_.worker = SEQTO_BINARY;
  }
  std::unique_ptr<Runner> found() {
    link_.install(SEQTO_BINARY);
    return make_runner("adb:board", options_, env_);
  }
  // Bytes of blobs that went there since the last call.
  int64_t crossed() {
    std::lock_guard lock(mutex_);
    int64_t bytes = 0;
    for (size_t at = 0; (at = log_.find("over the link: ", at)) != std::string::npos; ++at)
      bytes += std::stoll(log_.substr(log_.find("blobs, ", at) + 7));
    log_.clear();
    return bytes;
  }
  Code code_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const DeviceGone& error) {
      gone_ = true;
      message_ = error.what();
      return error.code();
    } catch (const Error& error) {
      message_ = error.what();
      return error.code();
    }
    ADD_FAILURE() << "no Error";
    return Code::kInternal;
  }

  FakeLink link_;
  Env env_;
  RunnerOptions options_;
  bool gone_ = false;
  std::string message_;

 private:
  std::mutex mutex_;
  std::string log_;
};

TEST_F(LinkRunner, SharedWeightsAndSamplesCrossTheLinkOnce) {
  auto runner = found();
  EXPECT_NE(runner->description().find(" by adb:board"), std::string::npos);
  auto one = runner->load(adder(1));
  EXPECT_GE(crossed(), 20000);
  EXPECT_EQ(one->run(ones())[0].values<float>()[4999], 5001);
  EXPECT_EQ(crossed(), 20000);
  auto two = runner->load(adder(2));
  EXPECT_EQ(two->run(ones())[0].values<float>()[4999], 5002);
  EXPECT_EQ(crossed(), 0);  // the model itself is small
  runner.reset();
  runner = make_runner("adb:board", options_, env_);  // another day
  EXPECT_EQ(runner->load(adder(3))->run(ones())[0].values<float>()[0], 4);
  EXPECT_EQ(crossed(), 0);
}

TEST_F(LinkRunner, ARunGoesOnWhenTheLinkIsCut) {
  auto runner = found();
  auto one = runner->load(adder(1)), two = runner->load(adder(2));
  EXPECT_GT(link_.cut(), 0);
  EXPECT_EQ(one->run(ones())[0].values<float>()[0], 2);
  EXPECT_EQ(two->run(ones())[0].values<float>()[0], 3);
  EXPECT_EQ(two->time(ones(), 4).size(), 4u);
  EXPECT_GT(link_.cut(), 0);
  EXPECT_EQ(one->run_many(std::vector{ones(), ones()}).size(), 2u);
}

TEST_F(LinkRunner, AMachineThatStaysAwayIsGone) {
  options_.reconnect_seconds = 0.3;
  auto runner = found();
  auto session = runner->load(adder(1));
  std::ofstream(link_.away()) << "x";
  link_.cut();
  EXPECT_EQ(code_of([&] { session->run(ones()); }), Code::kUnavailable);
  EXPECT_TRUE(gone_);
  EXPECT_NE(message_.find("device not found"), std::string::npos) << message_;
  std::filesystem::remove(link_.away());
  EXPECT_EQ(session->run(ones())[0].values<float>()[0], 2);
}

TEST_F(LinkRunner, TheProgramIsCopiedOnceAndItsCrashIsTheModelsFault) {
  options_.run_timeout_seconds = 3;
  options_.library = SEQTO_MISBEHAVING_ORT_LIBRARY;
  auto runner = make_runner("adb:board", options_, env_);
  EXPECT_EQ(runner->load(small("good"))->run({{float_tensor({4}, {1, 2, 3, 4})}}).size(), 1u);
  auto copied = [&] {
    return std::count_if(std::filesystem::directory_iterator(link_.cache()), {},
                         [](const auto& entry) { return entry.path().filename().string().starts_with("worker-"); });
  };
  EXPECT_EQ(copied(), 1);
  EXPECT_EQ(code_of([&] { runner->load(small("misbehave_load_abort")); }), Code::kInvalidInput);
  EXPECT_NE(message_.find("was killed by signal 6 while it loaded the model"), std::string::npos) << message_;
  auto session = runner->load(small("misbehave_run_abort"));
  EXPECT_EQ(code_of([&] { session->run({{float_tensor({4}, {1, 2, 3, 4})}}); }), Code::kInvalidInput);
  session = runner->load(small("misbehave_run_spin"));
  EXPECT_EQ(code_of([&] { session->run({{float_tensor({4}, {1, 2, 3, 4})}}); }), Code::kInvalidInput);
  EXPECT_NE(message_.find("did not answer within 3 s"), std::string::npos) << message_;
  EXPECT_FALSE(gone_);
  make_runner("adb:board", options_, env_);
  EXPECT_EQ(copied(), 1);
}

// A package's folders are as old as the package: of four copies the one that was just made was the oldest.
TEST_F(LinkRunner, ACopyIsAsYoungAsItsCopying) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path bin = folder.path / "seqto-0.1/bin", package = folder.path / "seqto.tar.gz";
  fs::create_directories(bin);
  std::ofstream(bin / "seqto") << "#!/bin/sh\nexec " << SEQTO_BINARY << " \"$@\"\n";
  fs::permissions(bin / "seqto", fs::perms::owner_all);
  ASSERT_EQ(
      std::system(
          ("tar -czf " + package.string() + " --mtime=2020-01-01 -C " + folder.path.string() + " seqto-0.1").c_str()),
      0);
  for (const char* other : {"worker-a", "worker-b", "worker-c"}) fs::create_directories(link_.cache() / other);
  ::setenv("SEQTO_WORKER_PACKAGE", package.c_str(), 1);
  const auto use = [&] { make_runner("adb:board", options_, env_)->load(adder(1)); };
  EXPECT_NO_THROW(use());
  ::unsetenv("SEQTO_WORKER_PACKAGE");
  EXPECT_EQ(std::distance(fs::directory_iterator(link_.cache()), {}), 3 + 1) << "three copies, and the blobs";
}

TEST_F(LinkRunner, WhatIsNotReachedSaysWhatHasToWork) {
  std::ofstream(link_.away()) << "x";
  EXPECT_EQ(code_of([&] { make_runner("adb:board", options_, env_); }), Code::kUnavailable);
  EXPECT_NE(message_.find("device not found; `adb devices` has to list board"), std::string::npos) << message_;
}

TEST_F(LinkRunner, AProgramThatIsNoFileOfItsOwnIsNotCopied) {
  options_.worker = SEQTO_SOURCE_DIR "/dev";  // a script, as Python's
  EXPECT_EQ(code_of([&] { make_runner("adb:board", options_, env_); }), Code::kUnavailable);
  EXPECT_NE(message_.find("has no seqto"), std::string::npos) << message_;
  EXPECT_NE(message_.find("SEQTO_WORKER_PACKAGE"), std::string::npos) << message_;
}

}  // namespace
}  // namespace seqto
