#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "seqto/error.h"

namespace seqto {
namespace {

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(Code::kUnavailable, fmt::format("[start] no pipe to be had: {}; close other programs or raise the "
                                                "limit of open files",
                                                std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void stop_blocking(const Descriptor& d) { ::fcntl(d.get(), F_SETFL, ::fcntl(d.get(), F_GETFL) | O_NONBLOCK); }

// Between fork and exec, where only calls that are safe in a signal handler are allowed: other threads of the parent
// may have held any lock.
[[noreturn]] void become(char* const* arguments, const int (&ends)[3], int report) {
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int target = 0; target < 3; ++target) ::dup2(ends[target], target);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // also what others opened without the flag
  ::execvp(arguments[0], arguments);
  int reason = errno;
  [[maybe_unused]] ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

// Above 2, so that dup2() to 0, 1, 2 in the child neither overwrites one nor keeps its close-on-exec flag.
Descriptor out_of_the_way(Descriptor d) {
  if (d.get() > 2) return d;
  return Descriptor(::fcntl(d.get(), F_DUPFD_CLOEXEC, 3));
}

// Where a parent ignores SIGCHLD nobody learns how a child ended.
constexpr int kUnknown = -1;

std::string words(int status) {
  if (status == kUnknown) return "ended in a way that the system does not tell where SIGCHLD is ignored";
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe(), report = make_pipe();
  in.read = out_of_the_way(std::move(in.read));
  out.write = out_of_the_way(std::move(out.write));
  err.write = out_of_the_way(std::move(err.write));
  report.write = out_of_the_way(std::move(report.write));
  const int ends[3] = {in.read.get(), out.write.get(), err.write.get()};
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), ends, report.write.get());
  int reason = errno;
  report.write.close();
  bool failed = pid_ < 0 || ::read(report.read.get(), &reason, sizeof reason) == sizeof reason;
  if (failed) {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    throw Error(Code::kUnavailable,
                fmt::format("[start] {}: {}; an executable was expected", command.at(0), std::strerror(reason)));
  }
  input_ = std::move(in.write);
  output_ = std::move(out.read);
  errors_ = std::move(err.read);
  for (const Descriptor* d : {&input_, &output_, &errors_}) stop_blocking(*d);
}

Subprocess::~Subprocess() {
  if (!end_within(1)) kill();
  wait();
}

bool Subprocess::running() {
  const pid_t found = ended_ ? 0 : ::waitpid(pid_, &status_, WNOHANG);
  if (found < 0 && errno == ECHILD) status_ = kUnknown;
  if (found == pid_ || status_ == kUnknown) ended_ = true;
  return !ended_;
}

bool Subprocess::end_within(double seconds) {
  input_.close();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return ended_;
}

void Subprocess::terminate() {
  if (running()) ::kill(-pid_, SIGTERM);
}

void Subprocess::kill() {
  if (running()) ::kill(-pid_, SIGKILL);
}

std::string Subprocess::wait() {
  while (!ended_) {
    const pid_t found = ::waitpid(pid_, &status_, 0);
    if (found < 0 && errno == ECHILD) status_ = kUnknown;
    ended_ = found == pid_ || status_ == kUnknown;
  }
  return words(status_);
}

bool Subprocess::was_killed() const {
  if (!ended_ || status_ == kUnknown || !WIFSIGNALED(status_)) return false;
  const int number = WTERMSIG(status_);
  return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

int64_t Subprocess::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

bool is_program(const std::string& program) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (program.find('/') != std::string::npos) return fs::exists(program, error);
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable ? variable : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (fs::exists(fs::path(folder) / program, error)) return true;
  return false;
}

std::optional<size_t> write_available(int fd, std::string_view text) {
  // A pipe has no flag that says "no signal": SIGPIPE is blocked for this thread and taken away if it came.
  sigset_t pipe_signal, before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ssize_t n = ::write(fd, text.data(), text.size());
  int error = n < 0 ? errno : 0;
  if (error == EPIPE && !::sigismember(&before, SIGPIPE)) {
    timespec now{};
    ::sigtimedwait(&pipe_signal, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0 && error != EAGAIN && error != EINTR) return std::nullopt;
  return static_cast<size_t>(std::max<ssize_t>(n, 0));
}

bool read_available(int fd, std::string& text) {
  char buffer[65536];
  for (;;) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    else if (n == 0) return false;
    else if (errno != EINTR) return errno == EAGAIN;
  }
}

}  // namespace seqto
