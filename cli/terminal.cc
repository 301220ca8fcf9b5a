#include "terminal.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
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

// No more than `columns` characters of UTF-8.
std::string clipped(const std::string& text, int columns) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80 && seen++ == columns) return text.substr(0, i);
  return text;
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

std::string ProgressLine::text(const Progress& p) const {
  std::string text{p.verb};
  const bool ends = p.total > 0;
  if (ends && terminal_)
    text += fmt::format(" {}", bar(std::min(1.0, static_cast<double>(p.done) / static_cast<double>(p.total)), 16));
  text += ends ? fmt::format(" {}/{}", p.done, p.total) : fmt::format(" {}", p.done);
  const double seconds = std::chrono::duration<double>(marks_.back().time - marks_.front().time).count();
  const auto steps = static_cast<double>(p.done - marks_.front().done);
  if (seconds > 0 && steps > 0) {
    text += fmt::format(", {}", rate_text(steps / seconds));
    if (p.total > p.done)
      text += fmt::format(", about {} left", time_text(seconds / steps * static_cast<double>(p.total - p.done)));
  }
  return p.note.empty() ? text : fmt::format("{}, {}", text, p.note);
}

void ProgressLine::show(const Progress& p) {
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (p.verb != verb_ || (!marks_.empty() && p.done < marks_.back().done)) {
    verb_ = std::string(p.verb);
    last_ = now;
    marks_.clear();
  }
  // The first step stands for the start: what came before it, as loading a model, is no measure of the rest.
  marks_.push_back({now, p.done});
  while (marks_.size() > 2 && now - marks_.front().time > kWindow) marks_.pop_front();
  const bool last_step = p.total > 0 && p.done >= p.total;
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (!last_step && now - last_ < pause) return;
  last_ = now;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}{}", clipped(text(p), columns_of(2) - 1), last_step ? "\n" : "");
    std::fflush(stderr);
    shown_ = !last_step;
  } else {
    fmt::print(stderr, "{}\n", text(p));
  }
}

void ProgressLine::clear() {
  std::lock_guard lock(mutex_);
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
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

}  // namespace seqto::cli
