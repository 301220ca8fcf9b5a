#include "runner/reconnecting_session.h"

#include <gtest/gtest.h>

#include <deque>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

// What a link does, call by call: 0 stands for success, else the code of the error. Then it works.
struct Link {
  std::deque<int> openings, runs;
  int opened = 0, ran = 0;
};

void next_of(std::deque<int>& script) {
  if (script.empty()) return;
  int code = script.front();
  script.pop_front();
  if (code) throw Error(static_cast<Code>(code), "[test] scripted");
}

class ScriptedSession : public Session {
 public:
  explicit ScriptedSession(Link& link) : link_(link) {}
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    ++link_.ran;
    next_of(link_.runs);
    return {inputs.begin(), inputs.end()};
  }
  const std::vector<std::string>& input_names() const override { return names_; }
  const std::vector<std::string>& output_names() const override { return names_; }

 private:
  Link& link_;
  std::vector<std::string> names_{"x"};
};

class Reconnecting : public testing::Test {
 protected:
  std::unique_ptr<ReconnectingSession> session(double patience_seconds = 60) {
    auto open = [this]() -> std::unique_ptr<Session> {
      ++link_.opened;
      next_of(link_.openings);
      return std::make_unique<ScriptedSession>(link_);
    };
    return std::make_unique<ReconnectingSession>(open, patience_seconds, patience_seconds, env_);
  }
  Code code_of_run(Session& s) {
    try {
      s.run(inputs_);
    } catch (const DeviceGone&) {
      gone_ = true;
      return Code::kUnavailable;
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "no Error";
    return Code::kInternal;
  }

  static constexpr int kBroken = static_cast<int>(Code::kUnavailable);
  Link link_;
  Env env_;
  bool gone_ = false;
  std::vector<Tensor> inputs_{float_tensor({1}, {7})};
};

TEST_F(Reconnecting, ARunIsRepeatedOnANewConnection) {
  auto s = session();
  link_.runs = {kBroken, 0, kBroken, kBroken};
  link_.openings = {kBroken};
  EXPECT_TRUE(s->run(inputs_)[0].equals(inputs_[0]));
  EXPECT_EQ(link_.ran, 2);
  EXPECT_EQ(link_.opened, 3);  // the first, one that failed, one that worked
  EXPECT_TRUE(s->run(inputs_)[0].equals(inputs_[0]));
  EXPECT_EQ(link_.ran, 5);
}

TEST_F(Reconnecting, AModelThatAlwaysBreaksTheLinkFails) {
  auto s = session();
  link_.runs.assign(8, kBroken);
  EXPECT_EQ(code_of_run(*s), Code::kInvalidInput);
  EXPECT_EQ(link_.ran, 8);
}

TEST_F(Reconnecting, ADeviceThatStaysAwayIsGone) {
  auto s = session(0.1);
  link_.runs = {kBroken};
  link_.openings.assign(1000, kBroken);
  EXPECT_EQ(code_of_run(*s), Code::kUnavailable);
  EXPECT_TRUE(gone_);
  link_.openings.clear();
  EXPECT_EQ(s->run(inputs_).size(), 1u);  // it is back
}

TEST_F(Reconnecting, OtherErrorsAreTheModels) {
  auto s = session();
  link_.runs = {static_cast<int>(Code::kInvalidInput)};
  EXPECT_EQ(code_of_run(*s), Code::kInvalidInput);
  EXPECT_EQ(link_.ran, 1);
}

TEST_F(Reconnecting, WaitingCanBeCancelled) {
  auto s = session();
  link_.runs = {kBroken};
  link_.openings.assign(1000, kBroken);
  s.reset();
  env_.cancelled = [this] { return link_.opened > 3; };
  EXPECT_THROW(session(), Error);
  EXPECT_LT(link_.openings.size(), 1000u);
}

}  // namespace
}  // namespace seqto::internal
