#include "rpc_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "api.h"
#include "tracker.h"
#include "uploads.h"

namespace seqto::on_tvm {
namespace {

constexpr int kHandshakeSeconds = 10;
constexpr int kRefused = 3;  // exit code of a session that did not come to be

volatile sig_atomic_t stopped = 0;
void on_stop(int) { stopped = 1; }
void on_child(int) {}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// The rest of a key, as " -timeout=30": the session ends after so many seconds.
void obey(const std::string& key) {
  constexpr std::string_view kTimeout = "-timeout=";
  if (size_t at = key.find(kTimeout); at != std::string::npos)
    ::alarm(std::max(1u, static_cast<unsigned>(std::atof(key.c_str() + at + kTimeout.size()))));
}

bool shake_hands(const Socket& client, const std::string& key, const std::string& own_key) {
  constexpr int32_t kLongestKey = 1024;
  if (client.receive_number() != kRpcMagic) return false;
  std::string offered = client.receive_text(kLongestKey);
  bool good = offered.substr(0, offered.find(' ')) == "client:" + key;
  client.send_number(good ? kRpcMagic : kRpcMismatch);
  if (!good) return false;
  client.send_text("server:" + own_key);
  obey(offered);
  return true;
}

// The life of a session's process.
[[noreturn]] void session(Socket client, const std::string& key, const std::string& own_key) {
  int code = kRefused;
  try {
    client.set_timeout(kHandshakeSeconds);
    if (shake_hands(client, key, own_key)) {
      client.set_timeout(0);
      client.keep_alive();
      code = 1;
      global_function("rpc.ServerLoop")(static_cast<int64_t>(client.fd()));
      code = 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "seqto-tvm: session: %s\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

// Signals that a server waits for: held back, but while it waits.
class Signals {
 public:
  Signals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
      ::sigaddset(&held, number);
      struct sigaction action{};
      action.sa_handler = number == SIGCHLD ? on_child : on_stop;
      ::sigaction(number, &action, nullptr);
    }
    ::signal(SIGPIPE, SIG_IGN);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
  }
  // Until somebody connects, a signal comes, or the time is over. True: somebody connects.
  bool wait(const Socket* listening, int seconds) const {
    pollfd state{listening ? listening->fd() : -1, POLLIN, 0};
    timespec limit{seconds, 0};
    return ::ppoll(&state, 1, &limit, &before_) == 1;
  }
  void restore() const {
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
};

class Server {
 public:
  explicit Server(const ServeOptions& options)
      : o_(options), uploads_(o_.folder), listening_(Socket::listen(o_.address)), match_key_(o_.key) {
    o_.address.port = listening_.port();
    uploads_.register_functions();
  }
  ~Server() {
    for (pid_t pid : sessions_) ::kill(pid, SIGKILL);
    for (pid_t pid : sessions_) ::waitpid(pid, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run() {
    say("listening on " + o_.address.host + ":" + std::to_string(o_.address.port) + " key " + o_.key);
    while (!stopped) {
      reap();
      if (!o_.tracker.empty()) tend_tracker();
      bool busy = !o_.tracker.empty() && !sessions_.empty();  // a tracker lends it to one client at a time
      if (signals_.wait(busy ? nullptr : &listening_, kPingSeconds)) open_session();
    }
  }

 private:
  static constexpr int kPingSeconds = 2;
  static constexpr int kPatience = 3;  // pings without the client that the tracker sent; then a new offer

  void open_session() {
    Socket client = listening_.accept();
    if (!client) return;
    std::fflush(nullptr);
    pid_t pid = ::fork();
    if (pid == 0) {
#ifdef __linux__
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no session outlives its server
#endif
      signals_.restore();
      listening_.close();
      tracker_.reset();
      session(std::move(client), match_key_, o_.key);
    }
    if (pid > 0) sessions_.push_back(pid);
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      std::erase(sessions_, pid);
      bool refused = WIFEXITED(status) && WEXITSTATUS(status) == kRefused;
      if (!refused) offered_ = false;
      if (WIFSIGNALED(status))
        std::fprintf(stderr, "seqto-tvm: a session was killed by signal %d (%s)\n", WTERMSIG(status),
                     ::strsignal(WTERMSIG(status)));
    }
  }

  // Keeps an offer with the tracker; connects anew when it was gone.
  void tend_tracker() {
    if (!sessions_.empty()) return;
    try {
      if (!tracker_) {
        tracker_.emplace(parse_address(o_.tracker));
        tracker_->introduce(o_.key, o_.tracker_host, o_.address.port);
        offered_ = false;
      }
      if (offered_) {
        auto pending = tracker_->pending();
        bool taken = std::find(pending.begin(), pending.end(), match_key_) == pending.end();
        waited_ = taken ? waited_ + 1 : 0;
        if (waited_ <= kPatience) return;
      }
      match_key_ = make_match_key(o_.key);
      tracker_->offer(o_.key, o_.tracker_host, o_.address.port, match_key_);
      offered_ = true;
      waited_ = 0;
    } catch (const Error& error) {
      if (tracker_ || !tracker_failed_) std::fprintf(stderr, "seqto-tvm: %s\n", error.what());
      tracker_failed_ = true;
      tracker_.reset();
    }
  }

  ServeOptions o_;
  Signals signals_;  // first: from now on a signal ends run(), and what follows is undone
  Uploads uploads_;
  Socket listening_;
  std::vector<pid_t> sessions_;
  std::optional<Tracker> tracker_;
  std::string match_key_;  // that clients have to know
  bool offered_ = false, tracker_failed_ = false;
  int waited_ = 0;
};

}  // namespace

void serve(const ServeOptions& options) {
  if (!is_loopback(options.address.host)) {
    if (!options.expose)
      throw Error(Code::kUsage,
                  "[serve] --host " + options.address.host +
                      " found; a loopback address expected: who reaches the port runs any code here. "
                      "Forward it by ssh or adb (docs/guide/devices.md), or add --expose in a network that "
                      "you trust");
    std::fprintf(stderr, "seqto-tvm: warning: who reaches %s:%d can run any code on this machine\n",
                 options.address.host.c_str(), options.address.port);
  }
  if (options.key.empty() || options.key.find_first_of(" \t\n\"\\") != std::string::npos)
    throw Error(Code::kUsage, "[serve] key '" + options.key + "' found; a word without blanks and quotes expected");
  Server(options).run();
}

}  // namespace seqto::on_tvm
