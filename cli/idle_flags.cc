#include "idle_flags.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::cli {

namespace {

// Of "--rounding learned".
std::string without_word(const std::string& flag) { return flag.substr(0, flag.find(' ')); }

}  // namespace

void refuse_idle(const Recipe& recipe, const WordFlags& f, const Command& word) {
  const bool of_this_mode =
      word.count("--mode") + word.count("--plan") > 0 && !word.typed("--mode") && !word.typed("--plan");
  const auto is_given = [&](const std::string& flag) {
    return word.typed(flag) || (of_this_mode && word.count(flag) > 0);
  };
  const auto require = [&](const char* flag, const auto& read_by) {
    if (const std::string why = why_idle(recipe, read_by); !why.empty())
      throw Error(Code::kUsage, fmt::format("[quantize] {} {}", flag, why));
  };
  const auto require_beside = [&](const char* flag, const char* other, bool is_there) {
    if (is_given(flag) && !is_there)
      throw Error(Code::kUsage, fmt::format("[quantize] {} without {} found, where it does nothing; both expected, or "
                                            "neither",
                                            flag, other));
  };
  const ImproveOptions named = f.improve.named();
  for (const Improver& i : improvers())
    if (i.asked(named) && is_given(without_word(i.flag)))
      require(i.flag, [&](Scheme scheme, QuantFormat) { return i.serves(scheme); });
  for (const SchemeSetting& s : scheme_settings()) {
    if (!s.flag || !is_given(s.flag)) continue;
    const bool says_what_is = s.flag == std::string_view("--weight-bits") && f.weights.bits == 8;
    if (!says_what_is) require(s.flag, s.read_by);
  }
  require_beside("--smooth-alpha", "--smooth-quant", smooths(recipe));
  require_beside("--float16-block-ops", "--float16-compute", f.weights.float16.compute);
}

}  // namespace seqto::cli
