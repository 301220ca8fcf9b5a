#include "orchestrator/hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/descriptor.h"
#include "orchestrator/hub/curl.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr int kAttempts = 5;  // without progress

// One request: from the file's present end, if the server can do that, else from its beginning.
class Attempt {
 public:
  Attempt(const Download& file, const Env& env)
      : file_(file),
        env_(env),
        c_(curl()),
        handle_(c_.easy_init(), c_.easy_cleanup),
        out_(::open(file.to.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    struct stat info{};
    if (!handle_ || out_.get() < 0 || ::fstat(out_.get(), &info) != 0)
      throw Error(Code::kInvalidInput,
                  fmt::format("[hub] {}: {}; a folder that can be written was expected; choose another --hub-cache",
                              file.to.string(), std::strerror(errno)));
    size_ = start_ = info.st_size;
    set(CURLOPT_URL, file.url.c_str());
    set(CURLOPT_USERAGENT, "seqto/" SEQTO_VERSION);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    bool secure = file.url.starts_with("https:");
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    set(CURLOPT_REDIR_PROTOCOLS, static_cast<long>(secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
    set(CURLOPT_CONNECTTIMEOUT, 30L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, 30L);  // without a byte: the attempt has failed
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFODATA, this);
    set(
        CURLOPT_XFERINFOFUNCTION, +[](void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) -> int {
          return static_cast<Attempt*>(self)->env_.cancelled() ? 1 : 0;
        });
    set(CURLOPT_WRITEDATA, this);
    set(
        CURLOPT_WRITEFUNCTION, +[](char* data, size_t, size_t count, void* self) -> size_t {
          return static_cast<Attempt*>(self)->take(data, count) ? count : 0;
        });
    // The header by itself: libcurl refuses the whole answer of a server that ignores CURLOPT_RESUME_FROM.
    if (start_ > 0) set(CURLOPT_RANGE, (range_ = fmt::format("{}-", start_)).c_str());
  }

  // Empty: done. Else why not.
  std::string run() {
    CURLcode code = c_.easy_perform(handle_.get());
    env_.stop_if_cancelled("hub");
    if (!stopped_.empty()) throw Error(Code::kInvalidInput, stopped_);
    long status = this->status();
    if (status == 416 && start_ > 0) {  // nothing from there on: complete, or another file than before
      if (complete()) return "";
      truncate();
      return "the server has no such range";
    }
    if (status >= 400) return fmt::format("the server answered {}", status);
    if (code != CURLE_OK) return c_.easy_strerror(code);
    if (file_.exact && size_ < file_.max_bytes) return fmt::format("it ended at byte {} of {}", size_, file_.max_bytes);
    return "";
  }

  int64_t size() const { return size_; }
  bool resumed() const { return start_ > 0; }
  bool final() const {  // an answer that will be the same the next time
    long s = status();
    return s >= 400 && s < 500 && s != 408 && s != 416 && s != 429;
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    c_.easy_setopt(handle_.get(), option, value);
  }

  long status() const {
    long status = 0;
    c_.easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  bool complete() const { return file_.exact && size_ == file_.max_bytes; }

  void truncate() {
    if (::ftruncate(out_.get(), 0) == 0) size_ = start_ = 0;
  }

  bool take(const char* data, size_t count) {
    long status = this->status();
    if (status >= 400) return true;                                  // the text of an error page
    if (start_ > 0 && size_ == start_ && status != 206) truncate();  // all of it, from its beginning
    if (file_.max_bytes > 0 && size_ + static_cast<int64_t>(count) > file_.max_bytes) {
      stopped_ = fmt::format("[hub] {} has more than the {} bytes that were expected; check the hub's URL", file_.url,
                             file_.max_bytes);
      return false;
    }
    for (size_t done = 0; done < count;) {
      ssize_t n = ::write(out_.get(), data + done, count - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        stopped_ = fmt::format("[hub] {}: {}; make room or choose another --hub-cache", file_.to.string(),
                               std::strerror(errno));
        return false;
      }
      done += static_cast<size_t>(n);
    }
    size_ += static_cast<int64_t>(count);
    env_.progress({"fetch", size_, file_.max_bytes, file_.url.substr(file_.url.rfind('/') + 1)});
    return true;
  }

  const Download& file_;
  const Env& env_;
  const Curl& c_;
  std::unique_ptr<CURL, decltype(Curl::easy_cleanup)> handle_;
  Descriptor out_;
  int64_t start_ = 0, size_ = 0;
  std::string range_, stopped_;
};

void pause(double seconds, const Env& env) {
  for (int i = 0; i < static_cast<int>(seconds * 20); ++i) {
    env.stop_if_cancelled("hub");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Downloaded download(const Download& file, const Env& env) {
  if (!file.url.starts_with("http://") && !file.url.starts_with("https://"))
    throw Error(Code::kUsage,
                fmt::format("[hub] the URL {} found; one that begins with https:// or http:// was expected; "
                            "correct --hub-url or --hub-manifest",
                            file.url));
  Downloaded result;
  int64_t furthest = -1;
  double wait = 0.25;
  for (int failed = 0;;) {
    Attempt attempt(file, env);
    result.failure = attempt.run();
    result.resumed |= attempt.resumed();
    if (result.failure.empty() || attempt.final()) return result;
    bool further = attempt.size() > furthest;  // a link that is cut again and again still gets there
    furthest = std::max(furthest, attempt.size());
    failed = further ? 1 : failed + 1;
    if (failed == kAttempts) return result;
    env.log(LogLevel::kInfo,
            fmt::format("{}: {}; trying again from byte {}", file.url, result.failure, attempt.size()));
    pause(wait, env);
    wait = further ? 0.25 : std::min(8.0, 2 * wait);
  }
}

}  // namespace seqto::internal
