// Parts of the caller's own in `tune`: they give what the library's parts give that do the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "seqto/error.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

const fs::path kDigits = fs::path(SEQTO_SOURCE_DIR) / "examples" / "digits";

std::unique_ptr<Dataset> digits() {
  return open_dataset(kDigits / "digits.npz", load_model(kDigits / "model.onnx").graph.free_inputs());
}

class OwnData : public Dataset {
 public:
  int64_t size() const override { return data_->size(); }
  Sample read(int64_t index) const override {
    if (fails_) throw std::logic_error("the disk is gone");
    return data_->read(index);
  }
  bool has_labels() const override { return data_->has_labels(); }
  SampleKind kind(int64_t index) const override { return data_->kind(index); }
  std::string fingerprint() const override { return "own"; }
  std::atomic<bool> fails_ = false;

 private:
  std::unique_ptr<Dataset> data_ = digits();
};

// Of the first classes, as top1 is.
class OwnTop1 : public Metric {
 public:
  const std::string& name() const override { return name_; }
  bool higher_is_better() const override { return true; }
  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    Score score;
    for (size_t i = 0; i < truths.size(); ++i) {
      const auto row = answers.outputs[0].row(static_cast<int64_t>(i));
      score.samples.push_back(std::ranges::max_element(row) - row.begin() == truths[i].label);
      score.value += score.samples.back() / static_cast<double>(truths.size());
    }
    return score;
  }

 private:
  std::string name_ = "right";
};

// The CPU, but for models of one size.
class OwnDevice : public Runner {
 public:
  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    if (serialized_size(model) == refused_) throw Error(Code::kInvalidInput, "[mine] refused");
    return cpu_->load(model, options);
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return cpu_->load_file(path, options);
  }
  Model optimized(const Model& model) override { return cpu_->optimized(model); }
  std::string description() const override { return "a device of my own"; }
  int64_t refused_ = 0;

 private:
  std::unique_ptr<Runner> cpu_ = make_runner("cpu");
};

// The plans of strategy random, asked for one by one.
class OwnSearch : public Proposer {
 public:
  explicit OwnSearch(std::vector<Plan> plans) : plans_(plans.rbegin(), plans.rend()) {}
  std::vector<Plan> ask() override {
    if (plans_.empty()) return {};
    const Plan plan = plans_.back();
    plans_.pop_back();
    return {plan};
  }
  void tell(const Trial& trial) override { EXPECT_TRUE(trial.measurement); }

 private:
  std::vector<Plan> plans_;
};

class OwnPartsTest : public ::testing::Test {
 protected:
  OwnPartsTest() : dir_(fs::temp_directory_path() / ("seqto_own_parts_" + std::to_string(::getpid()))) {}
  ~OwnPartsTest() override { fs::remove_all(dir_); }

  TuneOptions options(const std::string& folder) const {
    TuneOptions o;
    o.model = kDigits / "model.onnx";
    o.data = kDigits / "digits.npz";
    o.calibration_samples = 16;
    o.search_samples = 16;
    o.evaluation_samples = 64;
    o.schemes = {"int8", "int8_weights", "float32"};
    o.strategy = "random";
    o.search = {.objectives = {"kl", "size"}, .evaluations = 12, .front = 6, .racing = false};
    o.correct_weights = o.fast_types = false;
    o.output = dir_ / folder;
    return o;
  }
  std::vector<Trial> trials(const TuneOptions& o) const {
    tune(o);
    return Study::read(o.output / "study.jsonl").trials();
  }

  fs::path dir_;
};

// `prefixed`: what is behind a cut of the model was run alone, which may round otherwise.
void expect_equal(const std::vector<Trial>& found, const std::vector<Trial>& wanted, bool prefixed = false) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].id, wanted[i].id);
    EXPECT_EQ(found[i].part, wanted[i].part);
    ASSERT_TRUE(found[i].measurement && wanted[i].measurement);
    EXPECT_EQ(found[i].measurement->size_bytes, wanted[i].measurement->size_bytes);
    const double kl = wanted[i].measurement->losses.kl;
    EXPECT_NEAR(found[i].measurement->losses.kl, kl, prefixed && found[i].part == Part::kSearch ? 1e-3 * kl : 0);
  }
}

TEST_F(OwnPartsTest, GiveWhatTheLibrarysPartsGive) {
  const std::vector<Trial> wanted = trials(options("plain"));
  TuneOptions o = options("own");
  o.own.data = std::make_shared<OwnData>();
  o.data.clear();
  o.own.metrics = {std::make_shared<OwnTop1>()};
  o.devices = {"mine"};
  o.own.devices["mine"] = [](const Env&) { return std::make_unique<OwnDevice>(); };
  o.strategy = "by hand";
  std::vector<Plan> plans;
  for (const Trial& t : wanted)
    if (t.part == Part::kSearch) plans.push_back(t.plan);
  ASSERT_GE(plans.size(), 10u);
  o.own.strategy = [&](const SearchSpace& space, const StrategyOptions& how) {
    EXPECT_EQ(how.evaluations, 12);
    return make_strategy(std::make_unique<OwnSearch>(plans), space, how);
  };
  const std::vector<Trial> found = trials(o);
  expect_equal(found, wanted, true);
  for (const Trial& t : found) {
    if (t.part != Part::kEvaluation) continue;
    const Measurement& m = *t.measurement;
    EXPECT_DOUBLE_EQ(m.metrics.at("right"), m.metrics.at("top1"));
    EXPECT_EQ(m.samples.at("right"), m.samples.at("top1"));
    EXPECT_EQ(m.intervals.at("right").low, m.intervals.at("top1").low);
  }
  const Summary summary = report(o.output);
  EXPECT_NE(summary.header.environment_json.find("a device of my own"), std::string::npos);
  const auto header = nlohmann::json::parse(summary.header.options_json);
  EXPECT_EQ(header["own"].dump(), R"({"devices":["mine"],"metrics":["right"]})");

  o.strategy = "by foot";
  try {
    tune(o);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(R"(option strategy found "by hand", expected "by foot")"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(OwnPartsTest, AMetricIsAnObjectiveOnTheSearchSamplesOfAnOwnStrategy) {
  TuneOptions o = options("objective");
  o.search.objectives = {"right", "size"};
  o.search.evaluations = 0;  // as many as are asked for
  o.own.metrics = {std::make_shared<OwnTop1>()};
  std::vector<Plan> plans;
  struct Watching : OwnSearch {
    using OwnSearch::OwnSearch;
    void tell(const Trial& trial) override { EXPECT_TRUE(trial.measurement->metrics.contains("right")); }
  };
  o.strategy = "mine";
  o.own.strategy = [&](const SearchSpace& space, const StrategyOptions& how) {
    for (const SearchGroup& group : space.groups) plans.push_back(group.choices.back());
    return make_strategy(std::make_unique<Watching>(plans), space, how);
  };
  const Summary summary = tune(o);
  EXPECT_EQ(summary.objectives, (std::vector<std::string>{"right", "size"}));
  EXPECT_GE(summary.front.size(), 1u);
  const Study study = Study::read(o.output / "study.jsonl");
  EXPECT_EQ(std::count_if(study.trials().begin(), study.trials().end(),
                          [](const Trial& t) { return t.part == Part::kSearch; }),
            std::ssize(plans));
}

TEST_F(OwnPartsTest, ADeviceThatRefusesACandidateMakesAFailedTrial) {
  const std::vector<Trial> wanted = trials(options("plain"));
  const auto searched = std::ranges::find(wanted, Part::kSearch, &Trial::part);
  TuneOptions o = options("failing");
  o.devices = {"mine"};
  o.own.devices["mine"] = [&](const Env&) {
    auto device = std::make_unique<OwnDevice>();
    device->refused_ = searched->measurement->size_bytes;
    return device;
  };
  const std::vector<Trial> found = trials(o);
  const auto failed = std::ranges::find(found, searched->id, &Trial::id);
  ASSERT_NE(failed, found.end());
  EXPECT_EQ(failed->failure, "[mine] refused");
}

TEST_F(OwnPartsTest, WhereOnnxruntimesDefaultsDoNotRunTheSearchsInt8IsTheReference) {
  const auto of = [](const std::vector<Trial>& trials, const char* id) {
    return std::ranges::find(trials, id, &Trial::id);
  };
  TuneOptions o = options("with_defaults");
  o.quantize.per_channel = true;  // unlike the defaults
  const std::vector<Trial> wanted = trials(o);
  ASSERT_NE(of(wanted, "published"), wanted.end());
  o.output = options("without_defaults").output;
  o.devices = {"mine"};
  o.own.devices["mine"] = [&](const Env&) {
    auto device = std::make_unique<OwnDevice>();
    device->refused_ = of(wanted, "published")->measurement->size_bytes;
    return device;
  };
  const std::vector<Trial> found = trials(o);
  EXPECT_EQ(of(found, "published"), found.end());
  ASSERT_NE(of(found, "full"), found.end());
  EXPECT_GT(found.size(), 4u);
}

TEST_F(OwnPartsTest, OtherExceptionsEndTheRunAndTheStudyGoesOn) {
  TuneOptions o = options("broken");
  const auto data = std::make_shared<OwnData>();
  o.own.data = data;
  o.data.clear();
  o.strategy = "mine";
  o.own.strategy = [&](const SearchSpace& space, const StrategyOptions& how) {
    data->fails_ = true;
    return make_strategy("random", space, how);
  };
  EXPECT_THROW(tune(o), std::logic_error);
  const size_t before = Study::read(o.output / "study.jsonl").trials().size();
  EXPECT_GE(before, 2u);
  data->fails_ = false;
  o.own.strategy = [](const SearchSpace& space, const StrategyOptions& how) {
    return make_strategy("random", space, how);
  };
  EXPECT_GT(trials(o).size(), before);
}

TEST_F(OwnPartsTest, WhatIsWrongWithThemIsSaidFirst) {
  const auto refusal = [](const TuneOptions& o) -> std::string {
    try {
      tune(o);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage);
      return error.what();
    }
    return "";
  };
  TuneOptions both = options("a"), read = options("b"), strategy = options("c"), device = options("d"),
              metric = options("e");
  both.own.data = read.own.data = std::make_shared<OwnData>();
  read.data.clear();
  read.dataset.labels = "labels.csv";
  strategy.own.strategy = [](const SearchSpace& s, const StrategyOptions& how) {
    return make_strategy("random", s, how);
  };
  device.own.devices["mine"] = [](const Env&) { return std::make_unique<OwnDevice>(); };
  struct Kl : OwnTop1 {
    const std::string& name() const override { return kl; }
    std::string kl = "kl";
  };
  metric.own.metrics = {std::make_shared<Kl>()};
  EXPECT_NE(refusal(both).find("one of them expected"), std::string::npos);
  EXPECT_NE(refusal(read).find("leave these options out"), std::string::npos);
  EXPECT_NE(refusal(strategy).find("'random' found"), std::string::npos);
  EXPECT_NE(refusal(device).find("none of the devices cpu"), std::string::npos);
  EXPECT_NE(refusal(metric).find("'kl' found"), std::string::npos);
}

}  // namespace
}  // namespace seqto
