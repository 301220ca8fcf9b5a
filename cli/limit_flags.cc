#include "limit_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "seqto/error.h"
#include "seqto/validate.h"

namespace seqto::cli {
namespace {

constexpr const char *kMaxLoss = "--max-loss", *kMinAccuracy = "--min-accuracy";

using Units = std::map<std::string, double>;

// "25%": a share of the original, else a number with one of the units.
struct Quantity {
  double value = 0;
  bool share = false;
};

Quantity parse_quantity(const char* flag, const std::string& text, const Units& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  if (error == std::errc() && number >= 0 && std::isfinite(number)) {
    if (unit == "%") return {number / 100, true};
    if (auto it = units.find(unit); it != units.end()) return {number * it->second, false};
  }
  std::vector<std::string> names;
  for (const auto& [name, factor] : units)
    if (!name.empty()) names.push_back(name);
  throw Error(Code::kUsage, fmt::format("[check] {} {} found; a number with one of {} expected, or a share of the "
                                        "original as 25%",
                                        flag, text, fmt::join(names, ", ")));
}

// A flag for a cost, and the figures that it limits.
struct CostFlag {
  const char* flag;
  Units units;
  std::string absolute, ratio;
};
void add_cost(std::vector<Limit>& limits, const CostFlag& of, const std::string& text) {
  if (text.empty()) return;
  const Quantity q = parse_quantity(of.flag, text, of.units);
  limits.push_back({q.share ? of.ratio : of.absolute, q.value, true, of.flag});
}

// A flag for "NAME=VALUE", or VALUE of the figure `otherwise`; VALUE may be given in percent.
struct NamedFlag {
  const char* flag;
  std::string otherwise, suffix;
  bool at_most;
};
// Of a metric of the user's own the name says nothing.
bool lower_is_better(const std::string& name) {
  const std::vector<std::string> metrics = task_metric_names();
  return is_loss(name) || (std::ranges::count(metrics, name) > 0 && !higher_is_better(name));
}

// A limit on the side that every broken model is on. Drops are worse when higher, whatever the metric.
void refuse_other_side(const NamedFlag& of, const std::string& name, const std::string& text) {
  if (!of.suffix.empty() || !(of.at_most ? higher_is_better(name) : lower_is_better(name))) return;
  throw Error(Code::kUsage,
              fmt::format("[check] {} {} found, and {} is better when {}; {} {} expected", of.flag, text, name,
                          of.at_most ? "higher" : "lower", of.at_most ? kMinAccuracy : kMaxLoss, text));
}

void add_named(std::vector<Limit>& limits, const NamedFlag& of, const std::vector<std::string>& texts) {
  const auto& [flag, otherwise, suffix, at_most] = of;
  for (const auto& text : texts) {
    const size_t at = text.find('=');
    const std::string value = at == std::string::npos ? text : text.substr(at + 1);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const std::string unit(end, value.data() + value.size());
    if (at == 0 || error != std::errc() || !std::isfinite(number) || !(unit.empty() || unit == "%"))
      throw Error(Code::kUsage, fmt::format("[check] {} {} found; VALUE or NAME=VALUE as in {}=0.1 expected", flag,
                                            text, otherwise == kUnnamedLoss ? "kl" : otherwise));
    const std::string name = at == std::string::npos ? otherwise : text.substr(0, at);
    refuse_other_side(of, name, text);
    const double percent = unit.empty() && number <= 100 ? number : 90;  // that may have been meant
    if (!unit.empty()) number /= 100;
    if (number > 1 && higher_is_better(name))
      throw Error(Code::kUsage, fmt::format("[check] {} {} found; a share from 0 to 1 expected, as {} or {}%", flag,
                                            text, percent / 100, percent));
    if (number == 1 && unit.empty() && !suffix.empty() && higher_is_better(name))
      throw Error(Code::kUsage,
                  fmt::format("[check] {} {} found, which no model exceeds; 1% or 0.01 expected", flag, text));
    limits.push_back({name + suffix, number, at_most, flag});
  }
}

}  // namespace

std::vector<Limit> LimitFlags::parsed() const {
  static const CostFlag kSize{"--max-size",
                              {{"", 1},
                               {"B", 1},
                               {"k", 1e3},
                               {"kB", 1e3},
                               {"M", 1e6},
                               {"MB", 1e6},
                               {"G", 1e9},
                               {"GB", 1e9},
                               {"KiB", 1024},
                               {"MiB", 1048576},
                               {"GiB", 1073741824}},
                              "size_bytes",
                              "size_ratio"};
  static const CostFlag kLatency{
      "--max-latency", {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}, "latency_ns", "latency_ratio"};
  std::vector<Limit> limits;
  add_cost(limits, kSize, max_size);
  add_cost(limits, kLatency, max_latency);
  add_named(limits, {kMaxLoss, kUnnamedLoss, "", true}, max_loss);
  add_named(limits, {kMinAccuracy, "top1", "", false}, min_accuracy);
  add_named(limits, {"--max-accuracy-drop", "top1", "_drop", true}, max_accuracy_drop);
  with_loss(limits, kUnnamedLoss);  // the named ones before anything runs
  return limits;
}

double parse_share(const char* flag, const std::string& text) {
  const Quantity share = parse_quantity(flag, text, {{"", 1}});
  if (share.value <= 1) return share.value;
  throw Error(Code::kUsage, fmt::format("[tune] {} {} found; a share from 0 to 1 expected, as 1% or 0.01", flag, text));
}

void add_limit_flags(Command word, LimitFlags& f) {
  const Command limits = word.under("Limits");
  limits.add_option("--max-size", f.max_size, "10MB, 300k, or a share of the original's size: 30%").type_name("SIZE");
  limits.add_option("--max-latency", f.max_latency, "5ms, 800us, or a share of the original's: 80%").type_name("TIME");
  add_quality_limit_flags(word, f);
}

void add_quality_limit_flags(Command word, LimitFlags& f) {
  auto several = [&](const char* flag, std::vector<std::string>& values, const char* help) {
    word.under("Limits").add_option(flag, values, help).one_value_each().type_name("VALUE");
  };
  several(kMaxLoss, f.max_loss, "A loss, or NAME=VALUE for one by its name");
  several(kMinAccuracy, f.min_accuracy, "A task metric: top1, or NAME=VALUE");
  several("--max-accuracy-drop", f.max_accuracy_drop, "How far a task metric may fall: top1, or NAME=VALUE");
}

}  // namespace seqto::cli
