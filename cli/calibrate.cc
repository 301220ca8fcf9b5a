// seqto calibrate: the ranges of a model's tensors.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "print_json.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

void calibrate_command(const WordFlags& f, const std::string& tensorrt_table, const Context& context) {
  Model model = load_model_of(f, context);
  Workbench bench = open_workbench(f, model, "calibrate", true, context);
  Ranges ranges = ranges_of(f, model, bench, context);
  save_ranges(ranges, f.output, f.quantize.calibration().method);
  if (!tensorrt_table.empty()) save_tensorrt_tables(ranges, tensorrt_table, f.quantize.calibration().method);
  if (context.json) print_json(nlohmann::ordered_json{{"output", f.output}, {"tensors", ranges.size()}});
  else fmt::print("wrote the ranges of {} tensors to {}\n", ranges.size(), f.output);
}

}  // namespace

void add_calibrate(Command app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  const Command word = add_word(app, "calibrate", "The ranges of a model's tensors over the data", *f, true);
  add_quantize_flags(word, f->quantize);
  word.under("Output").add_option("-o,--output", f->output, "JSON file to write").required();
  auto table = std::make_shared<std::string>();
  word.under("Output").add_option("--tensorrt-table", *table,
                                  "Also write TensorRT's tables: PREFIX.json, .flatbuffers, .cache");
  add_print_config_flag(word);
  word.callback([=, &context] { calibrate_command(*f, *table, context); });
}

}  // namespace seqto::cli
