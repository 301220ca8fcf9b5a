#include "orchestrator/study/asked.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "metrics/study_header.h"
#include "metrics/trial_json.h"
#include "orchestrator/study/study_files.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

fs::path study_file(const fs::path& dir) { return StudyFolder{dir}.study(); }

void for_each_line(const fs::path& file, const std::function<void(const std::string&)>& take) {
  if (!fs::exists(file)) return;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) take(line);
}

using Waiting = std::map<int64_t, Trial>;  // by the number that they will have

// Of the study as it is: others have been taken in, and whoever did so was killed before it said so.
Waiting waiting(const fs::path& dir, const Study& study) {
  Waiting result;
  for_each_line(told_file(dir), [&](const std::string& line) {
    Trial trial = trial_from_json(line);
    if (trial.number >= std::ssize(study.trials())) result.emplace(trial.number, std::move(trial));
  });
  return result;
}

void write_waiting(const fs::path& dir, const Waiting& waiting) {
  if (waiting.empty()) {
    fs::remove(told_file(dir));
    return;
  }
  std::string text;
  for (const auto& [number, trial] : waiting) text += trial_to_json(trial) + "\n";
  write_file_atomic(told_file(dir), text);
}

bool equal(const Trial& a, const Trial& b) {
  return a.id == b.id && a.plan == b.plan && a.part == b.part && a.step == b.step && a.excluded == b.excluded;
}

// Appends those whose turn it is.
void take_in(Study& study, Waiting& waiting) {
  for (auto next = waiting.begin(); next != waiting.end() && next->first == std::ssize(study.trials());
       next = waiting.erase(next))
    study.append(next->second);
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Code::kInvalidInput,
              fmt::format("[tell] {}; the result of a proposal that `seqto ask` printed for this study expected; ask "
                          "again and measure what it prints",
                          what));
}

// Puts the result among those that wait, unless it has been told.
void take(const Result& result, const Study& study, std::span<const Proposal> asked, Waiting& waiting) {
  if (!result.trial)
    throw Error(Code::kUnavailable, fmt::format("[tell] proposal {} was not measured: {}; a result expected; measure "
                                                "it again",
                                                result.number, result.error));
  if (!result.study.empty() && result.study != study_id(study.header())) refuse("a result of another study found");
  const Trial& trial = *result.trial;
  const int64_t known = std::ssize(study.trials());
  if (trial.number < 0 || trial.number != result.number) refuse("a result without the number of its proposal found");
  if (trial.number < known) {
    if (!equal(trial, study.trials()[static_cast<size_t>(trial.number)]))
      refuse(fmt::format("a result for trial {} found, which the study has of another plan", trial.number));
    return;
  }
  const auto proposal = std::ranges::find(asked, trial.number, &Proposal::number);
  if (proposal == asked.end())
    refuse(fmt::format("a result for trial {} found, which nobody asked for yet", trial.number));
  if (!answers(trial, *proposal)) refuse(fmt::format("a result of another plan for trial {} found", trial.number));
  waiting.emplace(trial.number, trial);
}

}  // namespace

bool answers(const Trial& trial, const Proposal& proposal) {
  return trial.number == proposal.number && trial.plan == proposal.plan && trial.part == proposal.part &&
         trial.step == proposal.step && trial.excluded == proposal.excluded;
}

FileLock lock_asked(const fs::path& dir, const Env& env) { return {dir / "asked.lock", env}; }

void write_asked(const fs::path& dir, std::span<const Proposal> proposals) {
  std::string text;
  for (const Proposal& proposal : proposals) text += proposal_to_json(proposal) + "\n";
  write_file_atomic(asked_file(dir), text);
}

std::vector<Proposal> unanswered(const fs::path& dir, const Study& study) {
  std::vector<Proposal> result;
  bool same = true;
  for_each_line(asked_file(dir), [&](const std::string& line) {
    Proposal proposal = proposal_from_json(line);
    const auto number = static_cast<size_t>(proposal.number);
    if (number >= study.trials().size()) result.push_back(std::move(proposal));
    else if (!answers(study.trials()[number], proposal)) same = false;
  });
  if (!same || result.empty() || result.front().number != std::ssize(study.trials())) return {};
  return result;
}

void remove_asked(const fs::path& dir) {
  fs::remove(asked_file(dir));
  fs::remove(told_file(dir));
}

void take_told(const fs::path& dir, Study& study) {
  if (!fs::exists(told_file(dir))) return;
  Waiting told = waiting(dir, study);
  take_in(study, told);
  write_waiting(dir, told);
}

Study study_told(const fs::path& dir) {
  if (!fs::exists(study_file(dir)))
    throw Error(
        Code::kInvalidInput,
        fmt::format("[study] {} holds no study; a folder that `seqto tune --begin` made expected", dir.string()));
  Study study = Study::open(study_file(dir), Study::read(study_file(dir)).header());
  take_told(dir, study);
  return study;
}

std::vector<Proposal> missing(const fs::path& dir, const Study& study) {
  std::vector<Proposal> result = unanswered(dir, study);
  const Waiting told = waiting(dir, study);
  std::erase_if(result, [&](const Proposal& proposal) { return told.contains(proposal.number); });
  return result;
}

}  // namespace seqto::internal

namespace seqto {

using namespace internal;
using Json = nlohmann::ordered_json;

std::string result_to_json(const Result& result) {
  const std::string study = result.study.empty() ? "" : fmt::format("\"study\":\"{}\",", result.study);
  if (result.trial)
    return fmt::format("{{\"number\":{},{}\"trial\":{}}}", result.number, study, trial_to_json(*result.trial));
  return Json{{"number", result.number}, {"error", result.error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result result_from_json(const std::string& text) {
  try {
    const Json json = parse_json<Json>(text);
    Result result{.number = json.at("number"), .study = json.value("study", "")};
    if (json.contains("trial")) result.trial = trial_of(json["trial"]);
    else json.at("error").get_to(result.error);
    return result;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput, std::string("[result] a line of `seqto eval` expected; ") + error.what());
  }
}

int64_t tell(const std::filesystem::path& dir, std::span<const Result> results, const Env& env) {
  const FileLock lock = lock_asked(dir, env);
  Study study = study_told(dir);
  const std::vector<Proposal> asked = unanswered(dir, study);
  Waiting told = waiting(dir, study);
  std::optional<Error> first;
  for (const Result& result : results) {
    try {
      take(result, study, asked, told);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  write_waiting(dir, told);  // whoever goes on after a kill has them
  take_in(study, told);
  write_waiting(dir, told);
  if (first) throw *first;
  return std::ssize(missing(dir, study));
}

}  // namespace seqto
