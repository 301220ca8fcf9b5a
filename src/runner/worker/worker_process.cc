#include "runner/worker/worker_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/json.h"
#include "runner/worker/lasting_session.h"
#include "runner/worker/worker_protocol.h"
#include "seqto/error.h"

namespace seqto::internal {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kPollMs = 50, kWatchMs = 5;         // between looks at cancel; at a limited memory
constexpr auto kGrace = std::chrono::seconds(2);  // for a run that is cancelled
constexpr int kMostSendings = 3;                  // for one request; another worker may remove some at once
constexpr size_t kLastLines = 5, kLastBytes = 4096;

// As many whole lines of the end of `text` as fit.
std::string tail(const std::string& text) {
  size_t begin = text.size(), lines = 0;
  if (begin > 0 && text.back() == '\n') --begin;
  size_t end = begin;
  while (begin > 0 && end - begin < kLastBytes && (text[begin - 1] != '\n' || ++lines < kLastLines)) --begin;
  return text.substr(begin, end - begin);
}

Error interrupted(const Exchange& e) {
  return Error(Code::kInterrupted, fmt::format("[worker] interrupted while it {}", e.doing));
}

}  // namespace

struct WorkerProcess::Waiting {
  Exchange& exchange;
  int64_t id;
  Clock::time_point start = Clock::now();
  Clock::time_point give_up = Clock::time_point::max();  // when it was cancelled
  Clock::time_point ask_again = Clock::time_point::min();

  bool late() const {
    return exchange.timeout_seconds > 0 &&
           Clock::now() - start > std::chrono::duration<double>(exchange.timeout_seconds);
  }
};

class WorkerProcess::Turn {
 public:
  explicit Turn(WorkerProcess& worker) : worker_(worker) {}
  ~Turn() {
    if (!mine_) return;
    std::lock_guard lock(worker_.turn_mutex_);
    worker_.taken_ = false;
    worker_.turn_over_.notify_one();
  }
  bool take(std::chrono::milliseconds wait) {
    std::unique_lock lock(worker_.turn_mutex_);
    mine_ = worker_.turn_over_.wait_for(lock, wait, [this] { return !worker_.taken_; });
    if (mine_) worker_.taken_ = true;
    return mine_;
  }

 private:
  WorkerProcess& worker_;
  bool mine_ = false;
};

WorkerProcess::WorkerProcess(const WorkerLaunch& launch, const RunnerOptions& options, const Env& env)
    : link_(launch.link),
      options_(options),
      env_(env),
      process_(launch.command),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Exchange hello{"started", options.load_timeout_seconds};
  greeting_ = ask({{"verb", "hello"}, {"protocol", kWorkerProtocol}}, hello);
  if (auto protocol = field<int>(greeting_, "protocol"); protocol != kWorkerProtocol)
    fail(fmt::format("speaks protocol {}; {} was expected; use one version of seqto on both sides", protocol,
                     kWorkerProtocol));
  if (auto theirs = field<std::string>(greeting_, "device"); theirs != launch.device)
    fail(fmt::format("serves the device {}; {} was expected", theirs, launch.device));
  env_.log(LogLevel::kDebug,
           fmt::format("worker {} runs {}; kept from: {}", process_.pid(), launch.command.front(),
                       fmt::join(field_or<std::vector<std::string>>(greeting_, "confined", {"nothing"}), ", ")));
}

json WorkerProcess::ask(const json& request, Exchange& e) {
  Turn turn(*this);
  while (!turn.take(std::chrono::milliseconds(kPollMs)))
    if (e.cancelled || env_.cancelled()) throw interrupted(e);
  std::vector<int64_t> dropped;
  {
    std::lock_guard state(state_);
    if (!failure_.empty()) {
      const std::string gone =
          fmt::format("[worker] the worker that held this session is gone ({}); load the model again", failure_);
      if (killed_) throw WorkerKilled(gone);
      throw Error(Code::kUnavailable, gone);
    }
    dropped.swap(dropped_);
  }
  for (int64_t session : dropped) send({{"verb", "unload"}, {"session", session}});
  return exchange(request, e);
}

json WorkerProcess::exchange(const json& request, Exchange& e) {
  send(request);
  Waiting waiting{e, last_id_};
  const int pause = options_.worker_memory_bytes > 0 ? kWatchMs : kPollMs;
  int sendings = 0;
  for (bool open = true;;) {
    json reply;
    while (next_message(reply)) {
      if (reply.contains("ended")) crashed(field<int>(reply, "ended"), e);
      if (reply["id"] != waiting.id) continue;  // of an unload or a cancel
      if (reply.contains("lacks")) {
        if (++sendings > kMostSendings)
          fail(fmt::format("does not keep the blobs that it is given while it {}", e.doing));
        give_blobs(reply["lacks"]);
        send(request);
        waiting.id = last_id_;
        continue;
      }
      if (reply.contains("error")) {
        Error error = error_from_json(reply["error"]);
        if (reply["error"]["code"] == kDeviceGone) throw DeviceGone(error.what());
        throw error.code() == Code::kInterrupted ? interrupted(e) : error;
      }
      check_memory(e);
      return std::move(reply["ok"]);
    }
    if (!open) ended(e);
    check_memory(e);
    if (waiting.late())
      fail(fmt::format("did not answer within {:g} s while it {}; it was stopped", e.timeout_seconds, e.doing),
           fault());
    check_cancelled(waiting);
    outgoing_.write_to(process_.input());  // where nobody reads, the output ends too
    wait_for_something(pause);
    open = read_available(process_.output(), incoming_);
    read_errors();
  }
}

void WorkerProcess::send(const json& request) {
  json message{{"id", ++last_id_}};
  message.update(request);
  outgoing_.add(to_line(message));
}

void WorkerProcess::wait_for_something(int milliseconds) {
  std::array<pollfd, 4> states{{{process_.output(), POLLIN, 0},
                                {process_.errors(), POLLIN, 0},
                                {wake_.get(), POLLIN, 0},
                                {outgoing_.empty() ? -1 : process_.input(), POLLOUT, 0}}};
  ::poll(states.data(), states.size(), milliseconds);
  uint64_t wakes = 0;
  [[maybe_unused]] ssize_t n = ::read(wake_.get(), &wakes, sizeof wakes);
}

void WorkerProcess::read_errors() {
  size_t before = errors_.size();
  read_available(process_.errors(), errors_);
  if (errors_.size() > before) env_.log(LogLevel::kDebug, fmt::format("worker says: {}", tail(errors_)));
  if (errors_.size() > 4 * kLastBytes) errors_.erase(0, errors_.size() - kLastBytes);
}

// Past the blobs in front of it.
bool WorkerProcess::next_message(json& message) {
  while (!arriving_ || take_blob()) {
    const size_t end = incoming_.find('\n', searched_);  // a line of outputs may come in thousands of pieces
    searched_ = end == std::string::npos ? incoming_.size() : 0;
    if (end == std::string::npos) return false;
    const std::string line = incoming_.substr(0, end);
    incoming_.erase(0, end + 1);
    message = parse_json_if_any(line);
    if (link_) arriving_ = blob_header(message);
    if (arriving_) continue;
    const bool known = message.contains("ok") || message.contains("error") || message.contains("lacks");
    if (message.is_object() && ((message.contains("id") && known) || (link_ && message.contains("ended")))) return true;
    fail(fmt::format("wrote what is no reply of protocol {}: '{:.80}'", kWorkerProtocol, line));
  }
  return false;
}

bool WorkerProcess::take_blob() {
  if (incoming_.size() < arriving_->bytes) return false;
  if (!write_blob(*link_, arriving_->name, std::as_bytes(std::span(incoming_.data(), arriving_->bytes))))
    fail(fmt::format("sent {} bytes for which there is no room in {}", arriving_->bytes, link_->back().string()));
  incoming_.erase(0, arriving_->bytes);
  arriving_.reset();
  return true;
}

void WorkerProcess::give_blobs(const json& names) {
  if (!link_) fail("asks for blobs that lie in its folders");
  size_t bytes = 0;
  for (const json& name : names) {
    Blob blob = read_blob(*link_, name.get<std::string>());
    bytes += blob.bytes.size();
    outgoing_.add(to_line(BlobHeader{name.get<std::string>(), blob.bytes.size()}));
    outgoing_.add(std::move(blob));
  }
  env_.log(LogLevel::kDebug, fmt::format("over the link: {} blobs, {} bytes", names.size(), bytes));
}

void WorkerProcess::check_memory(const Exchange& e) {
  if (options_.worker_memory_bytes <= 0) return;
  int64_t bytes = process_.resident_bytes();
  if (bytes > options_.worker_memory_bytes)
    fail(fmt::format("used {:.0f} MB of memory while it {}; {:.0f} MB are allowed; it was stopped",
                     static_cast<double>(bytes) / 1e6, e.doing,
                     static_cast<double>(options_.worker_memory_bytes) / 1e6));
}

// A cancelled run ends by itself where the runtime can stop; elsewhere the worker is stopped after some grace.
void WorkerProcess::check_cancelled(Waiting& w) {
  if (!w.exchange.cancelled && !env_.cancelled()) return;
  auto now = Clock::now();
  if (w.give_up == Clock::time_point::max()) w.give_up = now + kGrace;
  if (now >= w.give_up) {
    process_.kill();
    std::lock_guard lock(state_);
    failure_ = "it was stopped by a cancel";
    throw interrupted(w.exchange);
  }
  // Again and again: the first may come before the run has begun.
  if (now < w.ask_again) return;
  w.ask_again = now + std::chrono::milliseconds(kPollMs);
  send({{"verb", "cancel"}, {"request", w.id}});
}

void WorkerProcess::ended(const Exchange& e) {
  const bool ours = !process_.end_within(kGrace.count());  // where it closed its output only
  if (ours) process_.kill();
  const std::string how = process_.wait();
  if (!link_ && !ours && process_.was_killed()) {
    std::lock_guard lock(state_);
    killed_ = true;
    failure_ = fmt::format("it {} while it {}", how, e.doing);
    throw WorkerKilled("[worker] the worker " + failure_.substr(3));
  }
  fail(link_ ? fmt::format("lost its link, which {}, while it {}", how, e.doing)
             : fmt::format("{} while it {}", how, e.doing));
}

// A shell there tells the code: 128 and the signal's number where one killed the worker.
void WorkerProcess::crashed(int code, const Exchange& e) {
  fail(fmt::format("{} {} while it {}", code > 128 ? "was killed by signal" : "ended with exit code",
                   code > 128 ? code - 128 : code, e.doing),
       fault());
}

Code WorkerProcess::fault() const { return link_ && !greeting_.is_null() ? Code::kInvalidInput : Code::kUnavailable; }

void WorkerProcess::fail(const std::string& what, Code code) {
  process_.kill();
  process_.wait();
  read_errors();
  {
    std::lock_guard lock(state_);
    failure_ = "it " + what;
  }
  const std::string said = fmt::format("[worker] the worker {}{}", what, last_words());
  if (said.find("bad_alloc") != std::string::npos)
    throw DeviceGone(said + "; more memory was expected; end other programs, or take fewer --jobs or a smaller model");
  throw Error(code, said);
}

std::string WorkerProcess::last_words() const {
  std::string said = tail(errors_);
  return said.empty() ? "" : fmt::format("; its last words on stderr: {}", said);
}

void WorkerProcess::wake() noexcept {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void WorkerProcess::drop(int64_t session) {
  std::lock_guard lock(state_);
  dropped_.push_back(session);
}

bool WorkerProcess::alive() {
  Turn turn(*this);
  if (turn.take({}) && !process_.running()) return false;  // while another asks, that one notices
  std::lock_guard lock(state_);
  return failure_.empty();
}

}  // namespace seqto::internal
