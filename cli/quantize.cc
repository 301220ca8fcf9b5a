// seqto quantize: one quantized model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "seqto/error.h"
#include "seqto/report.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

void quantize_command(const WordFlags& f, const Context& context) {
  Model model = load_model_of(f, context);
  require_quantizable(model);
  QuantizeOptions options = f.quantize.parsed();
  options.exclude = f.exclude;
  Quantizer quantizer(model, ranges_of(f, model, context), options);
  Model result =
      f.plan.empty() ? quantizer.quantize_excluding({}) : quantizer.quantize(plan_from_json(read_text(f.plan)));
  check_model(result);
  save_model(result, f.output);
  int64_t before = serialized_size(model), after = serialized_size(result);
  for (const auto& id : quantizer.deviations())
    context.env.log(LogLevel::kInfo,
                    fmt::format("deviates from onnxruntime's quantizer at {} (docs/compatibility.md)", id));
  if (context.json) {
    nlohmann::ordered_json j{{"output", f.output},
           {"size_bytes", after},
           {"float_size_bytes", before},
           {"deviations", quantizer.deviations()}};
    fmt::print("{}\n", j.dump(1));
  } else {
    fmt::print("wrote {}: {} instead of {}\n", f.output, format_bytes(after), format_bytes(before));
  }
}

}  // namespace

void add_quantize(CLI::App& app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  auto* word = add_word(app, "quantize", "One quantized model", *f, false);
  add_quantizer(word, *f);
  word->add_option("-o,--output", f->output, "ONNX file to write")->required();
  word->add_option("--plan", f->plan, "Plan: which layer gets which scheme");
  word->add_option("--mode", f->mode, "static")->check(CLI::IsMember({"static"}))->capture_default_str();
  word->callback([=, &context] { quantize_command(*f, context); });
}

}  // namespace seqto::cli
