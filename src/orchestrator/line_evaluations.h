// Room: orchestrator. Evaluations by a command that reads proposals and writes results, a JSON line each, as
// `seqto eval DIR -` does; docs/reference/formats.md.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/subprocess.h"
#include "orchestrator/tune/evaluations.h"
#include "seqto/ask.h"

namespace seqto::internal {

class LineEvaluations : public Evaluations {
 public:
  // `command` is the shell's, for the study of that folder; it is started when there is something to measure. `env`
  // outlives this.
  LineEvaluations(std::string command, std::filesystem::path study, const Env& env)
      : command_(std::move(command)), study_(std::move(study)), env_(env) {}
  ~LineEvaluations() override;  // one that has nothing to measure may take some seconds to end what it has elsewhere

  // As many at a time as the command says that it is ready for. Throws Error{kUnavailable} where it ends, or gives a
  // proposal back unmeasured. Once `over` it is ended; whoever measures again starts it anew.
  bool measure(std::span<const Proposal> proposals, const std::function<void(Trial)>& done,
               const std::function<bool()>& over) override;

 private:
  void send(const Proposal& proposal);
  void exchange();  // what can be read and written by now; waits a little where that is nothing
  void take(const std::string& line);
  void begin();
  void leave(size_t missing);  // answers, those not asked for yet among them
  void tell_silence();         // who says nothing may load a model, or wait for machines, or know no protocol
  std::string waits_for() const;
  void heard();
  std::string how_it_ended();
  [[noreturn]] void give_up(const std::string& why) const;

  std::string command_;
  std::filesystem::path study_;
  std::string id_;  // of the study
  const Env& env_;
  std::unique_ptr<Subprocess> child_;
  std::string to_send_, received_, said_;
  bool errors_open_ = true;
  std::optional<int64_t> ready_;       // proposals that it takes at a time, once it said so
  int64_t heard_ns_ = 0;               // when it last wrote anything
  int64_t patience_s_ = 0;             // after which its silence is told
  std::set<int64_t> in_flight_;        // their numbers
  std::map<int64_t, Result> results_;  // that are not told yet
};

// What TuneOptions::workers asks for; null: this process. `env` outlives it.
std::unique_ptr<Evaluations> evaluations_elsewhere(const TuneOptions& options, const Env& env);

}  // namespace seqto::internal
