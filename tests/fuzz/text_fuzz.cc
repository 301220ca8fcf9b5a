// Files of text: plans, ranges, configurations, studies, a hub's list.
#include "fuzz/targets.h"
#include "orchestrator/hub/hub_manifest.h"
#include "orchestrator/study/asked.h"
#include "orchestrator/study/summarize.h"
#include "seqto/ask.h"
#include "seqto/dialects.h"
#include "seqto/gate.h"
#include "seqto/recipe.h"
#include "seqto/target.h"
#include "seqto/tune.h"

namespace seqto::fuzz {

void read_plan(std::string_view bytes) {
  const std::string text(bytes);
  refusing([&] { plan_to_json(plan_from_json(text)); });
  refusing([&] { load_recipe(file("plan.json", bytes)); });
  refusing([&] { groups_from_json(text); });
  refusing([&] { proposal_to_json(proposal_from_json(text)); });
  refusing([&] { result_to_json(result_from_json(text)); });
  refusing([&] { trial_to_json(trial_from_json(text)); });
  refusing([&] { what_if_to_json(what_if_from_json(text)); });
  refusing([&] { lock_to_json(lock_from_json(text)); });
}

// The options of a study and of a recipe.
void read_settings(std::string_view bytes) {
  const std::string text(bytes);
  refusing([&] { quantize_options_to_json(quantize_options_from_json(text)); });
  refusing([&] { calibrate_options_to_json(calibrate_options_from_json(text)); });
  refusing([&] { improve_options_to_json(improve_options_from_json(text)); });
  refusing([&] { layer_options_from_json(text); });
  refusing([&] { tensor_overrides_to_json(tensor_overrides_from_json(text)); });
  refusing([&] { load_preprocess(file("preprocessor_config.json", bytes)); });
}

void read_dialect(std::string_view bytes) {
  static const Model kModel = infer_shapes(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,3,4,4] x) => (float[1,2] y) <float[2,3,3,3] w = {)" +
                                                            [] {
                                                              std::string values = "0.5";
                                                              for (int i = 1; i < 54; ++i) values += ",0.5";
                                                              return values;
                                                            }() +
                                                            R"(}, float[8,2] v = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}> {
  [conv] c = Conv(x, w) [relu] r = Relu(c) [flatten] f = Flatten(r) [mul] y = MatMul(f, v) })"));
  const std::string text(bytes);
  refusing([&] { detect_dialect(text); });
  for (const Dialect dialect :
       {Dialect::kSeqto, Dialect::kOnnxruntime, Dialect::kNncf, Dialect::kTensorrt, Dialect::kAimet, Dialect::kQuark})
    refusing([&] {
      const ForeignPlan plan = seqto::read_plan(text, dialect, kModel);
      refusing([&] { write_plan(plan, dialect, kModel); });
    });
}

void read_ranges(std::string_view bytes) {
  refusing([&] {
    const Ranges ranges = load_ranges(file("ranges.json", bytes));
    save_ranges(ranges, folder() / "copy.json");
    save_tensorrt_tables(ranges, folder() / "table");
  });
}

void read_config(std::string_view bytes) {
  const auto path = file("tune.toml", bytes);
  refusing([&] { config_to_toml(seqto::read_config(path)); });
  refusing([&] {
    if (is_published_config(path)) config_to_toml(read_published_config(path).settings);
  });
  refusing([&] { load_target(path); });
}

void read_study(std::string_view bytes) {
  file("study.jsonl", bytes);
  for (const char* other : {"asked.jsonl", "told.jsonl"}) file(other, bytes);
  refusing([&] {
    const Summary summary = seqto::read_summary(folder());
    summary_to_json(summary);
    summary_table(summary);
    write_report(summary, folder());
  });
  refusing([&] { internal::missing(folder(), Study::read(folder() / "study.jsonl")); });
}

void read_summary(std::string_view bytes) {
  file("summary.json", bytes);
  refusing([&] { files_in_study(folder(), "selected"); });
  refusing([&] { measured_in_study(folder()); });
  const auto path = file("published.json", bytes);
  refusing([&] {
    for (const auto& found : published_results(path)) report_published(found, folder() / "published");
  });
}

void read_hub(std::string_view bytes) {
  refusing([&] {
    const auto models = internal::hub_from_json(std::string(bytes), "manifest");
    filter_hub(models, {.name = "*e*", .tags = {"vision"}});
    find_hub_model(models, "net");
  });
}

}  // namespace seqto::fuzz
