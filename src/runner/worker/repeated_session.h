// Room: runner/worker. A session whose runs are repeated on a new one where what held it is lost.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

// Who derives says what a loss is and when it is given up: in its constructor, by open(), and in repeat().
class RepeatedSession : public Session {
 public:
  using Open = std::function<std::unique_ptr<Session>()>;  // makes a session

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return run_timed(inputs).outputs; }
  TimedOutputs run_timed(std::span<const Tensor> inputs) override;
  std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples) override;
  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override;
  void cancel() noexcept override;
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 protected:
  explicit RepeatedSession(Open open) : open_(std::move(open)) {}

  // Calls `work`, which uses the session, with a new one again after each loss.
  virtual void repeat(const std::function<void()>& work) = 0;

  bool is_lost() const { return !session_; }
  void open();  // throws what Open throws
  void lose() { replace(nullptr); }

 private:
  void replace(std::unique_ptr<Session> session);

  Open open_;
  std::mutex mutex_;                  // of what cancel() looks at
  std::unique_ptr<Session> session_;  // null: lost
  std::vector<std::string> input_names_, output_names_;
};

}  // namespace seqto::internal
