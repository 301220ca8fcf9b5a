#include "call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace seqto::python {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

struct Said {
  std::string verb, note;
  int64_t done = 0, total = 0;
};

int python_level(LogLevel level) { return 10 * (static_cast<int>(level) + 1); }

// What the work has said since the last look.
class Mailbox {
 public:
  void log(LogLevel level, std::string_view text) {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(level, text);
  }
  void progress(const Progress& p) {
    std::lock_guard lock(mutex_);
    said_ = Said{std::string(p.verb), std::string(p.note), p.done, p.total};
  }
  void finish(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    error_ = error, finished_ = true;
    changed_.notify_all();
  }
  // Waits a moment; true when the work is over.
  bool look(std::deque<std::pair<LogLevel, std::string>>& lines, std::optional<Said>& said) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLook, [&] { return finished_; });
    lines.swap(lines_), said.swap(said_);
    return finished_;
  }
  std::exception_ptr error() const { return error_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<LogLevel, std::string>> lines_;
  std::optional<Said> said_;
  std::exception_ptr error_;
  bool finished_ = false;
};

void hand_on(const std::deque<std::pair<LogLevel, std::string>>& lines, const std::optional<Said>& said,
             nb::handle progress) {
  if (!lines.empty()) {
    nb::object logger = nb::module_::import_("logging").attr("getLogger")("seqto");
    for (const auto& [level, text] : lines) logger.attr("log")(python_level(level), "%s", text.c_str());
  }
  if (said && !progress.is_none()) progress(said->verb.c_str(), said->done, said->total, said->note.c_str());
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

void run_beside(const std::function<void(const Env&)>& work, nb::handle asked) {
  const nb::object progress =
      asked.is_none() ? nb::none() : nb::module_::import_("seqto._progress").attr("told")(asked);
  Mailbox mailbox;
  std::atomic<bool> cancelled{false};
  Env env;
  env.log = [&](LogLevel level, std::string_view text) { mailbox.log(level, text); };
  env.progress = [&](const Progress& p) { mailbox.progress(p); };
  env.cancelled = [&] { return cancelled.load(); };
  std::thread thread([&] {
    std::exception_ptr error;
    try {
      work(env);
    } catch (...) {
      error = std::current_exception();
    }
    mailbox.finish(error);
  });
  std::exception_ptr raised;
  for (bool over = false; !over;) {
    std::deque<std::pair<LogLevel, std::string>> lines;
    std::optional<Said> said;
    {
      nb::gil_scoped_release interpreter;
      over = mailbox.look(lines, said);
      if (over) thread.join();
    }
    if (raised) continue;
    try {
      hand_on(lines, said, progress);
    } catch (...) {
      raised = std::current_exception();
      cancelled = true;
    }
  }
  if (!progress.is(asked) && !progress.is_none()) progress.attr("close")();  // bars of our own
  if (raised) std::rethrow_exception(raised);
  if (mailbox.error()) std::rethrow_exception(mailbox.error());
}

}  // namespace seqto::python
