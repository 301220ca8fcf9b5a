#include "orchestrator/line_evaluations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/json.h"
#include "metrics/study_header.h"
#include "orchestrator/study/asked.h"
#include "runner/link.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// The whole lines of `text`, which keeps what is left.
template <class Take>
void take_lines(std::string& text, Take take) {
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (end > begin) take(text.substr(begin, end - begin));
  text.erase(0, begin);
}

// "ray", "ray:ADDRESS", or a command.
std::string command_of(const TuneOptions& o) {
  const std::string& workers = o.workers;
  if (workers != "ray" && !workers.starts_with("ray:")) return workers;
  std::string command = "exec \"${SEQTO_PYTHON:-python3}\" -m seqto.ray " + quoted(o.output.string());
  if (workers != "ray") command += " --address " + quoted(workers.substr(4));
  return command;
}

}  // namespace

LineEvaluations::~LineEvaluations() {
  constexpr double kSeconds = 10;
  if (child_ && ready_ && in_flight_.empty()) child_->end_within(kSeconds);
}

bool LineEvaluations::measure(std::span<const Proposal> proposals, const std::function<void(Trial)>& done,
                              const std::function<bool()>& over) {
  if (!child_) begin();
  heard();                     // nobody listened between two steps
  std::exception_ptr stopped;  // by `done`: no more is sent, and what runs is waited for
  size_t sent = 0, told = 0;
  while (stopped ? !in_flight_.empty() : told < proposals.size()) {
    env_.stop_if_cancelled("evaluate");
    if (over()) {
      leave(proposals.size() - told);
      break;
    }
    while (!stopped && sent < proposals.size() && std::ssize(in_flight_) < ready_.value_or(0)) send(proposals[sent++]);
    exchange();
    tell_silence();
    while (!stopped && told < proposals.size()) {
      const auto result = results_.find(proposals[told].number);
      if (result == results_.end()) break;
      Trial trial = *std::move(result->second.trial);
      if (!answers(trial, proposals[told]))
        give_up(fmt::format("what it measured for proposal {} is of another one", proposals[told].number));
      results_.erase(result);
      ++told;
      try {
        done(std::move(trial));
      } catch (...) {
        stopped = std::current_exception();
      }
    }
  }
  results_.clear();
  if (stopped) std::rethrow_exception(stopped);
  return true;
}

void LineEvaluations::begin() {
  id_ = study_id(Study::read(StudyFolder{study_}.study()).header());
  child_ = std::make_unique<Subprocess>(std::vector<std::string>{"/bin/sh", "-c", command_});
  ready_.reset();
  errors_open_ = true;
}

void LineEvaluations::leave(size_t missing) {
  constexpr double kSeconds = 5;  // to end what it has elsewhere
  env_.log(
      LogLevel::kWarning,
      fmt::format("[tune] --max-time: answers of the workers of `{}` to {} proposals were not waited for{}; the run "
                  "ends with what was measured",
                  command_, missing, ready_ ? "" : ", which never said that they are ready"));
  child_->terminate();
  child_->end_within(kSeconds);
  child_.reset();
  in_flight_.clear();
  for (std::string* text : {&to_send_, &received_, &said_}) text->clear();
}

void LineEvaluations::send(const Proposal& proposal) {
  to_send_ += proposal_to_json(proposal) + "\n";
  in_flight_.insert(proposal.number);
}

void LineEvaluations::exchange() {
  constexpr int kMilliseconds = 200;  // after which somebody may have cancelled
  std::array<pollfd, 3> ends{pollfd{child_->output(), POLLIN, 0},
                             pollfd{errors_open_ ? child_->errors() : -1, POLLIN, 0},
                             pollfd{child_->input(), POLLOUT, 0}};
  ::poll(ends.data(), to_send_.empty() ? 2 : 3, kMilliseconds);
  const std::optional<size_t> written = to_send_.empty() ? 0 : write_available(child_->input(), to_send_);
  to_send_.erase(0, written.value_or(0));
  if (errors_open_) errors_open_ = read_available(child_->errors(), said_);
  take_lines(said_, [&](const std::string& line) {
    env_.log(LogLevel::kInfo, "workers: " + line);
    heard();
  });
  const bool writes = read_available(child_->output(), received_);
  take_lines(received_, [&](const std::string& line) { take(line); });
  if (!written || !writes) give_up(how_it_ended());
}

void LineEvaluations::heard() {
  // A candidate may take minutes; the first line comes once a model is loaded.
  constexpr int64_t kUntilReady = 10, kUntilAnswered = 60;
  heard_ns_ = env_.clock_ns();
  patience_s_ = ready_ ? kUntilAnswered : kUntilReady;
}

void LineEvaluations::tell_silence() {
  constexpr int64_t kNsOfSecond = 1'000'000'000;
  if (env_.clock_ns() - heard_ns_ < patience_s_ * kNsOfSecond) return;
  env_.log(LogLevel::kWarning,
           fmt::format("[tune] nothing found from the workers of `{}` in {} s; {} expected; still waiting; Ctrl-C ends "
                       "it and keeps the study",
                       command_, patience_s_, waits_for()));
  patience_s_ *= 2;
}

std::string LineEvaluations::waits_for() const {
  if (!ready_) return R"(the line {"ready": N} expected first, as `seqto eval DIR -` writes it)";
  if (in_flight_.empty()) return R"(they are ready for no proposal; the line {"ready": N} above 0)";
  return fmt::format("answers to the proposals {}", fmt::join(in_flight_, ", "));
}

void LineEvaluations::take(const std::string& line) {
  constexpr int64_t kMostReady = 1'000'000;
  const auto json = parse_json_if_any(line);
  if (json.is_object() && json.contains("ready") && json["ready"].is_number()) {
    const auto ready = json["ready"].get<double>();
    if (!json["ready"].is_number_integer() || ready < 0 || ready > kMostReady)
      give_up(fmt::format("it is ready for {} proposals; 0 to {} expected", json["ready"].dump(), kMostReady));
    ready_ = static_cast<int64_t>(ready);
    heard();
    return;
  }
  heard();
  Result result;
  try {
    result = result_from_json(line);
  } catch (const Error& error) {
    give_up(fmt::format("it wrote a line that is none of the protocol: {}", error.what()));
  }
  if (!result.trial) give_up(fmt::format("proposal {} came back unmeasured: {}", result.number, result.error));
  if (!result.study.empty() && result.study != id_)
    give_up(fmt::format("it measured proposal {} in another study", result.number));
  if (in_flight_.erase(result.number) == 0)
    give_up(fmt::format("it measured proposal {}, which it was not asked for", result.number));
  results_[result.number] = std::move(result);
}

std::string LineEvaluations::how_it_ended() {
  for (int i = 0; i < 20 && child_->running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return child_->running() ? "it closed its output" : "it " + child_->wait();
}

void LineEvaluations::give_up(const std::string& why) const {
  throw Error(Code::kUnavailable,
              fmt::format("[tune] the workers of `{}` are gone: {}; workers that measure expected; the study is kept: "
                          "run the same command to go on",
                          command_, why));
}

std::unique_ptr<Evaluations> evaluations_elsewhere(const TuneOptions& o, const Env& env) {
  if (o.workers.empty()) return nullptr;
  if (!searches(o))
    throw Error(Code::kUsage,
                fmt::format("[tune] workers for strategy {} found, which measures for the report alone; a "
                            "strategy that searches expected, as chain",
                            o.strategy));
  if (o.config.empty())
    throw Error(Code::kUsage, "[tune] workers for options without their configuration file found; the command has it");
  return std::make_unique<LineEvaluations>(command_of(o), o.output, env);
}

}  // namespace seqto::internal
