// seqto analyze: how much each tensor suffers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "seqto/analyze.h"
#include "seqto/error.h"
#include "seqto/patterns.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_channels(const std::vector<double>& channels) {
  if (!channels.empty()) fmt::print("    by channel: {:.2f}\n", fmt::join(channels, " "));
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
    quantized = infer_shapes(load_model(f.quantized));
  }
  Sensitivity s = analyze(model, quantized, *bench.data, bench.samples, *bench.runner, context.env, {f.channels});
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
    fmt::print(
        "{}\n",
        Json{{"activations", activations}, {"weights", weights}, {"exclusion_order", exclusion_order(s, model)}}.dump(
            1));
    return;
  }
  fmt::print("{:48} {:>10} {:>12} {:>8}   (dB; larger is better)\n", "activation", "qdq_err", "xmodel_err", "score");
  for (const auto& e : s.activations) {
    std::string qdq = std::isnan(e.qdq_err) ? "-" : fmt::format("{:.2f}", e.qdq_err);
    fmt::print("{:48} {:>10} {:12.2f} {:8.4f}\n", e.tensor, qdq, e.xmodel_err, e.score);
    print_channels(e.channels);
  }
  fmt::print("\n{:48} {:>10}\n", "weight", "SQNR");
  for (const auto& e : s.weights) {
    fmt::print("{:48} {:10.2f}\n", e.tensor, e.sqnr);
    print_channels(e.channels);
  }
}

}  // namespace

void add_analyze(CLI::App& app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  auto* word = add_word(app, "analyze", "How much each tensor suffers from quantization", *f, true);
  add_quantizer(word, *f);
  word->add_option("--quantized", f->quantized, "The quantized model, of any tool and form; default: quantized here");
  word->add_flag("--per-channel-detail", f->channels, "Also every channel: outputs of weights, axis 1 of activations");
  add_print_config_flag(word);
  word->callback([=, &context] { analyze_command(*f, context); });
}

}  // namespace seqto::cli
