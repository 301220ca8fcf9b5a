// A pool of workers under load: threads that load, run, time, cancel and drop, while workers are killed and crash.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>

#include "seqto/error.h"
#include "seqto/runner.h"
#include "testing/children.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 3, kThreads = 6;
constexpr auto kLoad = std::chrono::seconds(5);
#ifdef SEQTO_SANITIZED
constexpr int kPause = 600;  // ms between two blows, half of that at least; a worker takes longer to start
#else
constexpr int kPause = 80;
#endif

// y = x * factors; factors are too large for a message, so they travel as a blob.
Model multiplier(float factor) {
  Model model = parse_model_text(
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[5000] x) => (float[5000] y) { y = Mul(x, factors) })");
  model.graph.initializers.push_back({"factors", float_tensor({5000}, std::vector<float>(5000, factor))});
  return model;
}

std::vector<Tensor> input(float value) { return {float_tensor({5000}, std::vector<float>(5000, value))}; }

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class Load {
 public:
  explicit Load(Runner& runner) : runner_(runner) {
    // Not by the threads: ThreadSanitizer cannot look into ONNX's parser.
    for (int factor = 1; factor <= 7; ++factor) models_.push_back(multiplier(static_cast<float>(factor)));
  }

  void use(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<float> factors;
    while (Clock::now() < end_) {
      const size_t kept = random() % 3;
      while (sessions.size() > kept) {
        const size_t gone = random() % sessions.size();
        sessions.erase(sessions.begin() + static_cast<ptrdiff_t>(gone));
        factors.erase(factors.begin() + static_cast<ptrdiff_t>(gone));
      }
      try {
        const size_t m = random() % models_.size();
        sessions.push_back(runner_.load(models_[m]));
        factors.push_back(static_cast<float>(m + 1));
        for (int step = 0; step < 8; ++step) {
          const size_t s = random() % sessions.size();
          work(*sessions[s], factors[s], random() % 5, static_cast<float>(random() % 100));
          ++done_;
        }
      } catch (const Error& error) {
        note(error);
        sessions.clear();  // of those whose worker crashed nothing is to be had
        factors.clear();
      }
    }
  }

  // Three kills for one crash.
  void harm() {
    std::mt19937 random(1);
    while (Clock::now() < end_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPause / 2 + static_cast<int>(random() % kPause)));
      const auto children = testing::children();
      if (children.empty()) continue;
      ::kill(std::stoi(children[random() % children.size()].filename()), random() % 4 ? SIGKILL : SIGABRT);
      ++harmed_;
    }
  }

  int done() const { return done_; }
  int harmed() const { return harmed_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  void work(Session& session, float factor, unsigned deed, float value) {
    auto expect = [&](const std::vector<Tensor>& outputs) {
      ASSERT_EQ(outputs.size(), 1u);
      const auto values = outputs[0].values<float>();
      ASSERT_EQ(values.size(), 5000u);
      for (const float v : values) ASSERT_EQ(v, factor * value);
    };
    if (deed == 0) {
      const auto results = session.run_many(std::vector(3, input(value)));
      ASSERT_EQ(results.size(), 3u);
      for (const TimedOutputs& result : results) expect(result.outputs);
    } else if (deed == 1) {
      ASSERT_EQ(session.time(input(value), 4).size(), 4u);
    } else if (deed == 2) {
      std::thread other([&] { session.cancel(); });
      try {
        expect(session.run(input(value)));
      } catch (const Error& error) {
        note(error);
      }
      other.join();
    } else {
      expect(session.run(input(value)));
    }
  }

  void note(const Error& error) {
    const std::string words = error.what();
    const auto says = [&](const char* part) { return words.find(part) != std::string::npos; };
    if (error.code() == Code::kInterrupted) return;  // cancelled
    if (says("signal 6") || says("times in a row") || says("the worker that held this session is gone")) return;
    std::lock_guard lock(mutex_);
    unknown_.push_back(words);
  }

  Runner& runner_;
  std::vector<Model> models_;  // of factors 1, 2, ...
  const Clock::time_point end_ = Clock::now() + kLoad;
  std::atomic<int> done_ = 0, harmed_ = 0;
  std::mutex mutex_;
  std::vector<std::string> unknown_;  // errors that no kill, crash or cancel explains
};

TEST(WorkerPool, GivesRightAnswersWhileWorkersDie) {
  const size_t descriptors = open_descriptors();
  std::set<fs::path> folders;
  {
    auto runner = make_runner("cpu", {.isolated = true, .worker = SEQTO_BINARY, .workers = kWorkers});
    Load load(*runner);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&load, t] { load.use(t); });
    load.harm();
    for (std::thread& thread : threads) thread.join();
    RecordProperty("done", load.done());
    RecordProperty("harmed", load.harmed());
    EXPECT_TRUE(load.unknown().empty()) << load.unknown().size() << ", first: " << load.unknown().front();
    EXPECT_GT(load.harmed(), 2500 / kPause);
    EXPECT_GT(load.done(), 2 * load.harmed());
    EXPECT_EQ(runner->load(multiplier(2))->run(input(3))[0].values<float>()[4999], 6);
    EXPECT_LE(testing::children().size(), size_t{kWorkers});
    folders = testing::blob_folders();
    EXPECT_FALSE(folders.empty());
  }
  EXPECT_TRUE(testing::children().empty());
  for (const fs::path& folder : folders) EXPECT_FALSE(fs::exists(folder)) << folder << " was left";
  EXPECT_EQ(open_descriptors(), descriptors);
}

}  // namespace
}  // namespace seqto
