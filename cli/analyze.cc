// seqto analyze: how much each tensor suffers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include <nlohmann/json.hpp>

#include "one_in_flags.h"
#include "print_json.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/plan.h"
#include "terminal.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

using Json = nlohmann::ordered_json;

// "-" where there is nothing to compare.
std::string decibels(double value) { return std::isnan(value) ? "-" : fmt::format("{:.2f}", value); }

// A row for each of `errors`, and below it those of its channels where they were asked for.
template <class Error>
void print_errors(const std::vector<TableColumn>& table, const std::vector<TableRow>& rows,
                  const std::vector<Error>& errors) {
  const auto lines = table_lines(table, rows, stdout_style());
  fmt::print("{}\n", lines.front());
  for (size_t i = 0; i < errors.size(); ++i) {
    fmt::print("{}\n", lines[i + 1]);
    std::vector<std::string> channels;
    std::ranges::transform(errors[i].channels, std::back_inserter(channels), decibels);
    if (!channels.empty()) fmt::print("    by channel: {}\n", fmt::join(channels, " "));
  }
}

// What the way that the errors are found does not read.
void refuse_idle(const Command& word, const WordFlags& f) {
  const auto refuse = [](const std::string& flag, const char* beside) {
    throw Error(Code::kUsage, fmt::format("[analyze] {} {}", flag, beside));
  };
  for (const char* flag : {"--size", "--plan-out", "--task", "--pooling"})
    if (word.count(flag) > 0)
      refuse(flag, "without --one-in found, where it does nothing; give --one-in SCHEMES, or leave it out");
  if (f.quantized.empty()) return;
  std::string flag = word.count("--ranges") > 0 ? "--ranges" : "";
  for (const char* heading : {"Scheme", "Ranges"})
    if (flag.empty()) flag = word.given_under(heading);
  if (!flag.empty())
    refuse(flag,
           "with --quantized found, whose model is not quantized here; leave one of them out: `seqto quantize` makes a "
           "model of such flags");
}

void analyze_command(const WordFlags& f, const Context& context) {
  Model model = load_model_of(f, context);
  require_quantizable(model);
  Workbench bench = open_workbench(f, model, "analyze", false, context);
  Model quantized;
  if (f.quantized.empty()) {
    QuantizeOptions options = f.quantize.parsed();
    options.exclude = expand_patterns(f.exclude, model);
    options.include = expand_patterns(options.include, model);
    quantized = Quantizer(model, ranges_of(f, model, bench, context), options).quantize_excluding({});
  } else {
    quantized = infer_shapes(load_model(model_file(f.quantized, f.hub, context)));
  }
  Sensitivity s = analyze(model, quantized, {*bench.data, bench.samples, *bench.runner, context.env}, {f.channels});
  if (s.activations.empty() && s.weights.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[analyze] no tensor of {} found that is quantized in the other model; "
                            "the model that was quantized from it expected",
                            f.model));
  if (context.json) {
    Json activations = Json::array(), weights = Json::array();
    for (const auto& e : s.activations) {
      activations.push_back(
          {{"tensor", e.tensor}, {"qdq_err", nullptr}, {"xmodel_err", e.xmodel_err}, {"score", e.score}});
      if (!std::isnan(e.qdq_err)) activations.back()["qdq_err"] = e.qdq_err;
      if (f.channels) activations.back()["channels"] = e.channels;
    }
    for (const auto& e : s.weights) {
      weights.push_back({{"tensor", e.tensor}, {"sqnr", e.sqnr}});
      if (f.channels) weights.back()["channels"] = e.channels;
    }
    print_json(
        Json{{"activations", activations}, {"weights", weights}, {"exclusion_order", exclusion_order(s, model)}});
    return;
  }
  constexpr auto kFigure = TableColumn::kFigure;
  std::vector<TableRow> rows;
  for (const auto& e : s.activations)
    rows.push_back({e.tensor, decibels(e.qdq_err), decibels(e.xmodel_err), fmt::format("{:.4f}", e.score)});
  fmt::print("In dB, larger is better:\n");
  print_errors({{"activation", TableColumn::kName}, {"qdq_err", kFigure}, {"xmodel_err", kFigure}, {"score", kFigure}},
               rows, s.activations);
  rows.clear();
  for (const auto& e : s.weights) rows.push_back({e.tensor, decibels(e.sqnr)});
  fmt::print("\n");
  print_errors({{"weight", TableColumn::kName}, {"SQNR", kFigure}}, rows, s.weights);
}

}  // namespace

void add_analyze(Command app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  const Command word = add_word(app, "analyze", "How much each tensor suffers from quantization", *f, true);
  add_quantizer(word, *f);
  word.under("Input").add_option("--quantized", f->quantized,
                                 "The quantized model, of any tool and form; default: quantized here");
  word.under("Output").add_flag("--per-channel-detail", f->channels,
                                "Also every channel: outputs of weights, axis 1 of activations");
  add_print_config_flag(word);
  auto one_in = std::make_shared<OneInFlags>();
  add_one_in_flags(word, *one_in);
  word.callback([=, &context] {
    if (!one_in->schemes.empty()) return one_in_command(*f, *one_in, context);
    refuse_idle(word, *f);
    analyze_command(*f, context);
  });
}

}  // namespace seqto::cli
