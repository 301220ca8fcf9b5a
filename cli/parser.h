// The parser of the command line, as words use it. CLI11 is behind it: its header costs a file ten seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace seqto::cli {

// A handle on an option or flag, to be copied freely; methods return it, so that they can be chained.
class Option {
 public:
  Option(CLI::Option* option) : option_(option) {}

  Option required(bool required = true) const;
  Option description(const std::string& text) const;
  Option type_name(const std::string& name) const;
  // Listed by --help-all alone, under the same heading.
  Option in_detail() const;
  Option default_str(const std::string& text) const;
  Option capture_default_str() const;  // what the variable holds now is shown as the default

  Option delimiter(char between) const;  // of several values in one argument
  Option one_value_each() const;         // the argument after a value is not another
  Option expected_once_each() const;     // the same, and --help does not say that there may be several
  Option trigger_on_parse() const;       // takes its value at once, before what follows is parsed
  Option needs(Option other) const;

  // Checks; --help shows them.
  Option check_range(int least, int most) const;
  Option check_range(double least, double most) const;
  Option check_range_or(double least, double most, const char* name) const;
  Option check_one_of(std::initializer_list<const char*> names) const;
  Option check_one_of(std::initializer_list<int> numbers) const;
  Option check_not_negative() const;
  Option check_positive() const;
  Option check_file() const;
  Option check_folder() const;
  Option read_size() const;  // 2k, 2G ... as bytes

  CLI::Option* get() const { return option_; }

 private:
  CLI::Option* option_;
};

// What the heading of a flag ends with that --help leaves to --help-all.
inline constexpr const char* kInDetail = ", in detail";

// A handle on a word, or on the program itself; to be copied freely. Variables given to it must outlive the parsing.
class Command {
 public:
  Command(CLI::App* app) : app_(app) {}

  // The same word; flags added through it are listed below this heading, or by --help-all alone. Both may be said.
  Command under(std::string heading) const;
  Command in_detail() const;

  Command add_subcommand(const std::string& name, const std::string& help) const;
  void require_subcommand() const;
  void callback(std::function<void()> work) const;

  // T is one of those that parser.cc lists.
  template <class T>
  Option add_option(const std::string& names, T& value, const std::string& help) const;
  template <class T>
  Option add_option_function(const std::string& names, const std::function<void(const T&)>& take,
                             const std::string& help) const;
  Option add_flag(const std::string& names, bool& value, const std::string& help) const;
  Option add_flag_function(const std::string& names, const std::function<void(int64_t)>& take,
                           const std::string& help) const;
  Option add_flag_callback(const std::string& name, const std::function<void()>& work, const std::string& help) const;

  Option get_option(const std::string& name) const;
  size_t count(const std::string& name) const;  // how often it was given; 0 also where there is no such option
  bool typed(const std::string& name) const;    // on the command line, not by a file of flags
  // The first flag below this heading, in detail or not, that was given, other than `but`; "" where none was.
  std::string given_under(const std::string& heading, const std::string& but = "") const;

  void hide() const;                // from --help
  void refuse_outer_flags() const;  // those of the words above it, which may follow others
  void pass_everything_on() const;  // what follows the word is for remaining(), --help too
  std::vector<std::string> remaining() const;

  CLI::App* get() const { return app_; }

 private:
  Option grouped(CLI::Option* option) const;

  CLI::App* app_;
  std::string heading_ = "Options";
  bool in_detail_ = false;
};

// A word on no command line, for flags that come from a file; it lives as long as this.
std::shared_ptr<CLI::App> word_of_file();

// Thrown from callbacks. All is said and done: exit code 0.
[[noreturn]] void end_parsing();
// All is said: this exit code.
[[noreturn]] void end_parsing(int code);
// A usage error: the option is missing after all.
[[noreturn]] void miss_option(const std::string& name);

}  // namespace seqto::cli
