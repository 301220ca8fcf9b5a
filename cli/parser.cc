#include "parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "seqto/error.h"

namespace seqto::cli {
namespace {

// CLI11's own name the largest double as the other end.
CLI::Validator bounded(bool (*holds)(double), const char* expected, const char* name) {
  const auto check = [=](const std::string& text) {
    double number = 0;
    const bool good = CLI::detail::lexical_cast(text, number) && std::isfinite(number) && holds(number);
    return good ? std::string() : text + " found; " + expected + " expected";
  };
  return {check, name};
}

}  // namespace

Option Option::required(bool required) const { return option_->required(required); }
Option Option::description(const std::string& text) const { return option_->description(text); }
Option Option::type_name(const std::string& name) const { return option_->type_name(name); }
Option Option::in_detail() const {
  const std::string heading = option_->get_group();
  return heading.ends_with(kInDetail) ? option_ : option_->group(heading + kInDetail);
}
Option Option::default_str(const std::string& text) const { return option_->default_str(text); }
Option Option::capture_default_str() const { return option_->capture_default_str(); }

// "cpu, web" has the names cpu and web.
Option Option::delimiter(char between) const {
  return option_->delimiter(between)->transform([](const std::string& value) {
    std::string trimmed = value;
    return CLI::detail::trim(trimmed);
  });
}
Option Option::one_value_each() const { return option_->allow_extra_args(false); }
Option Option::expected_once_each() const {
  return option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}
Option Option::trigger_on_parse() const { return option_->trigger_on_parse(); }
Option Option::needs(Option other) const { return option_->needs(other.option_); }

Option Option::check_range(int least, int most) const { return option_->check(CLI::Range(least, most)); }
Option Option::check_range(double least, double most) const { return option_->check(CLI::Range(least, most)); }
Option Option::check_range_or(double least, double most, const char* name) const {
  return option_->check(CLI::Range(least, most) | CLI::IsMember({name}));
}
Option Option::check_one_of(std::initializer_list<const char*> names) const {
  const CLI::IsMember member(names);
  const std::vector<std::string> known(names.begin(), names.end());
  const auto check = [member, known](const std::string& value) {
    const std::string problem = member(value);
    return problem.empty() ? problem : problem + did_you_mean(value, known);
  };
  return option_->check(CLI::Validator(check, member.get_description()));
}
Option Option::check_one_of(std::initializer_list<int> numbers) const { return option_->check(CLI::IsMember(numbers)); }
Option Option::check_not_negative() const {
  return option_->check(bounded([](double number) { return number >= 0; }, "0 or more", "NONNEGATIVE"));
}
Option Option::check_positive() const {
  return option_->check(bounded([](double number) { return number > 0; }, "a number above 0", "POSITIVE"));
}
Option Option::check_file() const { return option_->check(CLI::ExistingFile); }
Option Option::check_folder() const { return option_->check(CLI::ExistingDirectory); }
Option Option::read_size() const { return option_->transform(CLI::AsSizeValue(true)); }

Command Command::under(std::string heading) const {
  Command same = *this;
  same.heading_ = std::move(heading);
  return same;
}
Command Command::in_detail() const {
  Command same = *this;
  same.in_detail_ = true;
  return same;
}
Option Command::grouped(CLI::Option* option) const {
  const Option added = option->group(heading_);
  return in_detail_ ? added.in_detail() : added;
}

Command Command::add_subcommand(const std::string& name, const std::string& help) const {
  return app_->add_subcommand(name, help);
}
void Command::require_subcommand() const { app_->require_subcommand(1); }
void Command::callback(std::function<void()> work) const { app_->callback(std::move(work)); }

template <class T>
Option Command::add_option(const std::string& names, T& value, const std::string& help) const {
  return grouped(app_->add_option(names, value, help));
}
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, float&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::filesystem::path&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::filesystem::path>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::string>&, const std::string&) const;

template <class T>
Option Command::add_option_function(const std::string& names, const std::function<void(const T&)>& take,
                                    const std::string& help) const {
  return grouped(app_->add_option_function<T>(names, take, help));
}
template Option Command::add_option_function(const std::string&, const std::function<void(const bool&)>&,
                                             const std::string&) const;
template Option Command::add_option_function(const std::string&, const std::function<void(const std::string&)>&,
                                             const std::string&) const;
template Option Command::add_option_function(const std::string&,
                                             const std::function<void(const std::vector<std::string>&)>&,
                                             const std::string&) const;

Option Command::add_flag(const std::string& names, bool& value, const std::string& help) const {
  return grouped(app_->add_flag(names, value, help));
}
Option Command::add_flag_function(const std::string& names, const std::function<void(int64_t)>& take,
                                  const std::string& help) const {
  return grouped(app_->add_flag_function(names, take, help));
}
Option Command::add_flag_callback(const std::string& name, const std::function<void()>& work,
                                  const std::string& help) const {
  return grouped(app_->add_flag_callback(name, work, help));
}

Option Command::get_option(const std::string& name) const { return app_->get_option(name); }
size_t Command::count(const std::string& name) const {
  const CLI::Option* option = app_->get_option_no_throw(name);
  return option ? option->count() : 0;
}

bool Command::typed(const std::string& name) const {
  const CLI::Option* option = app_->get_option_no_throw(name);
  return option && std::ranges::count(app_->parse_order(), option) > 0;
}
std::string Command::given_under(const std::string& heading, const std::string& but) const {
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string flag = "--" + option->get_lnames().front();
    const bool is_under = option->get_group() == heading || option->get_group() == heading + kInDetail;
    if (is_under && flag != but) return flag;
  }
  return "";
}

void Command::hide() const { app_->group(""); }
void Command::refuse_outer_flags() const { app_->fallthrough(false); }
void Command::pass_everything_on() const {
  app_->prefix_command();
  app_->set_help_flag();
}
std::vector<std::string> Command::remaining() const { return app_->remaining(); }

std::shared_ptr<CLI::App> word_of_file() { return std::make_shared<CLI::App>(); }

void end_parsing() { throw CLI::Success(); }
void end_parsing(int code) { throw CLI::RuntimeError(code); }
void miss_option(const std::string& name) { throw CLI::RequiredError(name); }

}  // namespace seqto::cli
