// Workers that crash, hang, eat memory, talk nonsense; what they leave behind.
#include "runner/worker/worker_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "runner/runtimes.h"
#include "seqto/error.h"
#include "testing/children.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

Model small(const std::string& name) {
  Model model =
      parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Neg(x) })");
  model.graph.name = name;
  return model;
}
const std::vector<Tensor> kInputs{float_tensor({4}, {1, 2, 3, 4})};

void expect_works(Runner& runner) {
  EXPECT_TRUE(runner.load(small("good"))->run(kInputs)[0].equals(float_tensor({4}, {-1, -2, -3, -4})));
}

Error error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error";
  return Error(Code::kInternal, "");
}

bool has(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

#define EXPECT_SAYS(error, part) EXPECT_TRUE(has(error, part)) << (error).what()

// Its runtime does what the graph's name says; tests/testing/runtime/.
std::unique_ptr<Runner> misbehaving(RunnerOptions options = {}, const Env& env = {}) {
  options.isolated = true;
  options.worker = SEQTO_BINARY;
  options.library = SEQTO_MISBEHAVING_ORT_LIBRARY;
  return make_runner("cpu", options, env);
}

TEST(WorkerRunner, ACrashIsAnErrorAndTheNextLoadFindsAFreshWorker) {
  auto runner = misbehaving();
  expect_works(*runner);
  auto bystander = runner->load(small("bystander"));
  Error error = error_of([&] { runner->load(small("misbehave_load_abort")); });
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_SAYS(error, "was killed by signal 6 (Aborted) while it loaded the model");
  EXPECT_SAYS(error_of([&] { bystander->run(kInputs); }), "the worker that held this session is gone");
  expect_works(*runner);
  auto session = runner->load(small("misbehave_run_abort"));
  EXPECT_SAYS(error_of([&] { session->run(kInputs); }), "signal 6 (Aborted) while it ran the model");
  expect_works(*runner);
  session = runner->load(small("misbehave_run_exit"));
  EXPECT_SAYS(error_of([&] { session->time(kInputs, 3); }), "ended with exit code 3 while it timed the model");
  expect_works(*runner);
}

TEST(WorkerRunner, AHangIsAnError) {
  auto runner = misbehaving({.load_timeout_seconds = 4, .run_timeout_seconds = 2});
  Error error = error_of([&] { runner->load(small("misbehave_load_spin")); });
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_SAYS(error, "did not answer within 4 s while it loaded the model; it was stopped");
  auto session = runner->load(small("misbehave_run_spin"));
  EXPECT_SAYS(error_of([&] { session->run(kInputs); }), "did not answer within 2 s while it ran the model");
  expect_works(*runner);
}

TEST(WorkerRunner, TooMuchMemoryIsAnErrorWithBothFigures) {
  auto runner = misbehaving({.worker_memory_bytes = 400'000'000});
  expect_works(*runner);
  for (const char* deed : {"misbehave_load_allocate", "misbehave_run_allocate"}) {
    Error error = error_of([&] { runner->load(small(deed))->run(kInputs); });
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_SAYS(error, " MB of memory while it ");
    EXPECT_SAYS(error, "; 400 MB are allowed");
    expect_works(*runner);
  }
}

TEST(WorkerRunner, OfTwoWorkersOneSurvivesTheOther) {
  auto runner = misbehaving({.workers = 2});
  auto one = runner->load(small("one")), two = runner->load(small("misbehave_run_abort"));
  EXPECT_SAYS(error_of([&] { two->run(kInputs); }), "signal 6");
  EXPECT_EQ(one->run(kInputs).size(), 1u);
  expect_works(*runner);
}

// A worker that loads a model is not free.
TEST(WorkerRunner, TwoModelsThatAreLoadedAtOnceGetAWorkerEach) {
  auto runner = misbehaving({.workers = 2, .load_timeout_seconds = 4});
  ASSERT_EQ(testing::children().size(), 1u);
  std::atomic<bool> ended = false;
  std::jthread loading([&] {
    EXPECT_THROW(runner->load(small("misbehave_load_spin")), Error);
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  expect_works(*runner);
  EXPECT_FALSE(ended);
  EXPECT_EQ(testing::children().size(), 2u);
}

TEST(WorkerRunner, CancelStopsEvenWhatCannotBeStopped) {
  std::atomic<bool> stop{false};
  Env env;
  env.cancelled = [&] { return stop.load(); };
  auto runner = misbehaving({}, env);
  auto session = runner->load(small("misbehave_run_spin"));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = true;
  });
  Error error = error_of([&] { session->run(kInputs); });
  later.join();
  EXPECT_EQ(error.code(), Code::kInterrupted);
  stop = false;
  expect_works(*runner);
}

TEST(WorkerRunner, LastWordsOfTheWorkerAreInTheMessage) {
  Error error = error_of([] {
    internal::make_worker_runner({"sh", "-c", "echo first >&2; echo no such device >&2; exit 4"}, "cpu", {}, {});
  });
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_SAYS(error, "ended with exit code 4 while it started");
  EXPECT_SAYS(error, "no such device");
}

TEST(WorkerRunner, NonsenseIsAnError) {
  for (const char* says : {"hello", "[]", "{\"id\":1}", "{\"ok\":{}}"}) {
    Error error = error_of([&] {
      internal::make_worker_runner({"sh", "-c", std::string("echo '") + says + "'; cat > /dev/null"}, "cpu", {}, {});
    });
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_SAYS(error, "what is no reply of protocol 1");
  }
}

TEST(WorkerRunner, AnotherProtocolOrDeviceIsAnError) {
  auto greeted = [](const std::string& greeting) {
    return error_of([&] {
      internal::make_worker_runner({"sh", "-c", "echo '{\"id\":1,\"ok\":" + greeting + "}'; cat > /dev/null"}, "cpu",
                                   {}, {});
    });
  };
  EXPECT_SAYS(greeted(R"({"protocol":2,"device":"cpu"})"), "speaks protocol 2; 1 was expected");
  EXPECT_SAYS(greeted(R"({"protocol":1,"device":"tvm:llvm"})"), "serves the device tvm:llvm; cpu was expected");
  EXPECT_EQ(greeted(R"({"protocol":1})").code(), Code::kInvalidInput);
}

TEST(WorkerRunner, NoExecutableIsUnavailable) {
  Error error = error_of([] { make_runner("cpu", {.isolated = true, .worker = "/nowhere/seqto"}); });
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_SAYS(error, "/nowhere/seqto");
}

void kill_workers() {
  for (const fs::path& child : testing::children()) ::kill(std::stoi(child.filename()), SIGKILL);
}

TEST(WorkerRunner, WhoseWorkerIsKilledGoesOnInAnother) {
  auto runner = make_runner("cpu", {.isolated = true, .worker = SEQTO_BINARY});
  auto one = runner->load(small("one")), two = runner->load(small("two"));
  kill_workers();
  EXPECT_EQ(one->run_many(std::vector(3, kInputs)).size(), 3u);
  EXPECT_EQ(two->time(kInputs, 4).size(), 4u);
  kill_workers();
  EXPECT_GT(runner->memory().resident_bytes, 0);
  expect_works(*runner);
  EXPECT_TRUE(two->run(kInputs)[0].equals(float_tensor({4}, {-1, -2, -3, -4})));
}

// The next worker reads the model's file too.
TEST(WorkerRunner, AModelThatIsHandedOverAsAFileIsThereForTheNextWorker) {
  auto runner = internal::make_runtime("cpu:unoptimized", {.worker = SEQTO_BINARY}, {});
  auto session = runner->load(small("one"));
  kill_workers();
  EXPECT_TRUE(session->run(kInputs)[0].equals(float_tensor({4}, {-1, -2, -3, -4})));
}

TEST(WorkerRunner, WhatIsKilledEachTimeIsAnError) {
  Error error = error_of([] { internal::make_worker_runner({"sh", "-c", "kill -9 $$"}, "cpu", {}, {}); });
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_SAYS(error, "was killed by signal 9 (Killed) while it started, 3 times in a row; where memory is short, ");
}

TEST(WorkerRunner, LeavesNoFiles) {
  std::set<fs::path> folders;
  {
    auto runner = misbehaving();
    Model model = small("good");
    model.graph.initializers.push_back({"w", float_tensor({5000}, std::vector<float>(5000, 1))});
    model.graph.outputs.push_back({"z", DataType::kFloat, std::vector<Dimension>{{5000, ""}}, ""});
    model.graph.nodes.push_back({"neg", "Neg", "", {"w"}, {"z"}, {}, {}});
    auto session = runner->load(model);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(session->run(kInputs)[1].values<float>()[4999], -1);
    folders = testing::blob_folders();
    ASSERT_FALSE(folders.empty());
    size_t blobs = 0;
    for (const auto& folder : folders)
      for (const auto& entry : fs::directory_iterator(folder)) blobs += entry.path().filename() != "lock";
    EXPECT_EQ(blobs, 1u);  // the weight; outputs were taken away
    EXPECT_SAYS(error_of([&] { runner->load(small("misbehave_load_abort")); }), "signal 6");
  }
  for (const auto& folder : folders) EXPECT_FALSE(fs::exists(folder)) << folder << " was left";
}

TEST(WorkerCommand, NamesTheExecutableTheThreadsAndTheLibrary) {
  ::unsetenv("SEQTO_WORKER");
  std::vector<std::string> rest{"worker", "--device", "cpu", "--threads", "3"};
  auto command = [&](const RunnerOptions& options) {
    auto words = internal::worker_command("cpu", options);
    EXPECT_EQ(std::vector<std::string>(words.begin() + 1, words.begin() + 6), rest);
    return words;
  };
  EXPECT_EQ(command({.threads = 3})[0], "seqto");  // this test is not seqto itself
  ::setenv("SEQTO_WORKER", "/variable/seqto", 1);
  EXPECT_EQ(command({.threads = 3})[0], "/variable/seqto");
  EXPECT_EQ(command({.threads = 3, .worker = "/named/seqto"})[0], "/named/seqto");
  ::unsetenv("SEQTO_WORKER");
  EXPECT_EQ(command({.threads = 3, .library = "/lib.so"}).back(), "/lib.so");
}

}  // namespace
}  // namespace seqto
