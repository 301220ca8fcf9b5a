#include "terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>

namespace seqto::cli {
namespace {

constexpr int kFewest = 20;
constexpr auto kWindow = std::chrono::seconds(20);  // the rate is that of so long

// "3 s", "4:05 min", "1:02 h"
std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

std::string rate_text(double per_second) {
  if (per_second >= 10) return fmt::format("{:.0f}/s", per_second);
  return per_second >= 1 ? fmt::format("{:.1f}/s", per_second) : time_text(1 / per_second) + " each";
}

// A bar of `width` places, a third of which is done: "━━━───".
std::string bar(double share, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text += i < static_cast<int>(share * width + 0.5) ? "━" : "─";
  return text;
}

// Characters of UTF-8.
int width_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// As many of the parts as fit whole: half a number would be another number.
std::string joined(const std::vector<std::string>& parts, int columns) {
  std::string text;
  for (const std::string& part : parts) {
    std::string longer = text.empty() ? part : fmt::format("{}, {}", text, part);
    if (width_of(longer) > columns) break;
    text = std::move(longer);
  }
  return text;
}

// By the clock, as ends that move do; the last minute is counted.
std::string end_text(double seconds) {
  if (seconds < 60) return time_text(seconds) + " left";
  const std::time_t end = std::time(nullptr) + static_cast<std::time_t>(seconds);
  std::tm clock{};
  ::localtime_r(&end, &clock);
  return fmt::format("ends {:02}:{:02}", clock.tm_hour, clock.tm_min);
}

}  // namespace

int columns_of(int descriptor) {
  int columns = 0;
  if (const char* set = std::getenv("COLUMNS")) std::from_chars(set, set + std::string_view(set).size(), columns);
  if (columns >= kFewest) return columns;
  winsize size{};
  const bool known = ::isatty(descriptor) && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col >= kFewest ? size.ws_col : 80;
}

bool takes_colours(int descriptor) {
  const char *none = std::getenv("NO_COLOR"), *kind = std::getenv("TERM");
  return ::isatty(descriptor) && !(none && *none) && kind && *kind && std::string_view(kind) != "dumb";
}

TextStyle stdout_style() {
  return {::isatty(STDOUT_FILENO) ? columns_of(STDOUT_FILENO) : 0, takes_colours(STDOUT_FILENO)};
}

std::vector<std::string> ProgressLine::parts(const Progress& p) const {
  const double share = p.total > 0 ? std::min(1.0, static_cast<double>(p.done) / static_cast<double>(p.total)) : 0;
  std::vector<std::string> parts;
  if (p.step > 0) {
    parts.push_back(fmt::format("step {} of {}", p.step, p.steps));
    parts.push_back(fmt::format("{}{} {:.0f} %", p.verb, terminal_ ? " " + bar(share, 10) : "", 100 * share));
    if (p.seconds_left >= 0) parts.push_back(end_text(p.seconds_left));
  } else {
    std::string text{p.verb};
    if (p.total > 0 && terminal_) text += fmt::format(" {}", bar(share, 16));
    // The hub fetches bytes; all others count samples, candidates, rounds.
    const bool bytes = p.verb == "fetch";
    const auto count = [&](int64_t n) { return bytes ? format_bytes(n) : std::to_string(n); };
    parts.push_back(text + " " + count(p.done) + (p.total > 0 ? "/" + count(p.total) : ""));
    const double seconds = std::chrono::duration<double>(marks_.back().time - marks_.front().time).count();
    const auto steps = static_cast<double>(p.done - marks_.front().done);
    if (seconds > 0 && steps > 0) {
      parts.push_back(bytes ? format_bytes(std::llround(steps / seconds)) + "/s" : rate_text(steps / seconds));
      if (p.total > p.done) parts.push_back(end_text(seconds / steps * static_cast<double>(p.total - p.done)));
    }
  }
  if (!p.note.empty()) parts.emplace_back(p.note);
  return parts;
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void ProgressLine::show(const Progress& p) {
  if (p.step > p.steps) return clear();  // all steps are done
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const bool begins = p.verb != verb_;
  if (begins || (!marks_.empty() && p.done < marks_.back().done)) {
    verb_ = std::string(p.verb);
    if (p.step == 0) last_ = now;
    marks_.clear();
  }
  // The first step stands for the start: what came before it, as loading a model, is no measure of the rest.
  marks_.push_back({now, p.done});
  while (marks_.size() > 2 && now - marks_.front().time > kWindow) marks_.pop_front();
  // Work in several steps has one line for all of them.
  const bool last_step = p.step == 0 && p.total > 0 && p.done >= p.total;
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (!last_step && !(begins && p.step > 0) && now - last_ < pause) return;
  last_ = now;
  if (terminal_) {
    say(fmt::format("\r\033[K{}{}", joined(parts(p), columns_of(2) - 1), last_step ? "\n" : ""));
    shown_ = !last_step;
  } else {
    say(fmt::format("{}\n", fmt::join(parts(p), ", ")));
  }
}

void ProgressLine::clear() {
  std::lock_guard lock(mutex_);
  if (!shown_) return;
  say("\r\033[K");
  shown_ = false;
}

std::function<void(LogLevel, std::string_view)> make_log(int verbosity, std::function<void()> before) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(takes_colours(2) ? spdlog::color_mode::always
                                                                                     : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("seqto", std::move(sink));
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(verbosity == 0 ? spdlog::level::err : verbosity == 1 ? spdlog::level::info : spdlog::level::debug);
  return [logger, before = std::move(before)](LogLevel level, std::string_view text) {
    static const std::map<LogLevel, spdlog::level::level_enum> kLevels{{LogLevel::kDebug, spdlog::level::debug},
                                                                       {LogLevel::kInfo, spdlog::level::info},
                                                                       {LogLevel::kWarning, spdlog::level::warn},
                                                                       {LogLevel::kError, spdlog::level::err}};
    if (!logger->should_log(kLevels.at(level))) return;
    before();
    logger->log(kLevels.at(level), "{}", text);
  };
}

int keep_stdout() {
  const int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return kept;
}

void end_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_DFL);
}

}  // namespace seqto::cli
