// One more candidate: rewriting it, and rewriting + loading it against the runtime's own load of the same model file.
// Also a graph of 1,000 nodes. Sides are interleaved in one run; medians and ratios are printed.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/statistics.h"
#include "seqto/quantize.h"

namespace {

using namespace seqto;

double seconds(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ranges that are good enough to rewrite with: what is measured does not look at them.
Ranges any_ranges(const Model& model) {
  Ranges ranges;
  for (const auto* list : {&model.graph.value_info, &model.graph.inputs, &model.graph.outputs})
    for (const ValueInfo& v : *list) ranges[v.name] = {0.0f, 6.0f};
  return ranges;
}

void one_more_candidate(const std::string& path) {
  Model model = load_model(path);
  name_nodes(model);
  model = infer_shapes(model);
  Quantizer quantizer(model, any_ranges(model), {});
  std::vector<std::string> nodes;
  for (const Layer& l : layers(model)) nodes.push_back(l.id);
  auto runner = make_runner("cpu");
  auto file = (std::filesystem::temp_directory_path() / "seqto_bench_candidate.onnx").string();
  std::vector<double> rewrite, with_fields, ours, theirs, rewrite_ratio;
  quantizer.quantize_excluding({});
  quantizer.add_ranges("other", any_ranges(model));
  LayerOptions fields;
  fields.activation_type = DataType::kUint8;
  fields.weight_clipping = WeightClipping::kMse;
  fields.method = "other";
  Plan plan = uniform_plan(model, Scheme::kInt8);
  for (const auto& [layer, scheme] : plan.schemes) plan.options[layer] = fields;
  quantizer.quantize(plan);
  for (size_t k = 0; k < 40; ++k) {
    std::vector<std::string> excluded(nodes.begin(), nodes.begin() + static_cast<long>(k * nodes.size() / 40));
    Model candidate;
    rewrite.push_back(seconds([&] { candidate = quantizer.quantize_excluding(excluded); }));
    plan.options.erase(nodes[k * nodes.size() / 40]);
    with_fields.push_back(seconds([&] { quantizer.quantize(plan); }));
    double load = seconds([&] { runner->load(candidate); });
    save_model(candidate, file);
    double own = seconds([&] { runner->load_file(file); });
    ours.push_back(rewrite.back() + load);
    theirs.push_back(own);
    rewrite_ratio.push_back(ours.back() / own);
  }
  std::filesystem::remove(file);
  fmt::print(
      "candidate: rewrite {:.3f} ms, with fields {:.3f} ms (goal 3); rewrite + load {:.1f} ms, the runtime's own load "
      "{:.1f} ms, ratio {:.2f} (goal 1.2)\n",
      1e3 * median(rewrite), 1e3 * median(with_fields), 1e3 * median(ours), 1e3 * median(theirs),
      median(rewrite_ratio));
  fmt::print("ratio rewrite and load / the runtime's load {:.4f} lower\n", median(rewrite_ratio));
  fmt::print("ratio rewrite with fields / without {:.4f} lower\n", median(with_fields) / median(rewrite));
}

void thousand_nodes() {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,8,16,16] t0) => (float[1,8,16,16] t1000) "
      "<float[8,8,1,1] w> {";
  for (int i = 0; i < 1000; i += 2) text += fmt::format("t{} = Conv(t{}, w) t{} = Relu(t{}) ", i + 1, i, i + 2, i + 1);
  Model model = parse_model_text(text + "}");
  model.graph.initializers.clear();
  for (int i = 0; i < 1000; i += 2) {
    std::vector<float> w(64);
    for (size_t k = 0; k < w.size(); ++k)
      w[k] = static_cast<float>((k * 37 + static_cast<size_t>(i)) % 101) / 50.0f - 1.0f;
    model.graph.initializers.push_back({fmt::format("w{}", i), float_tensor({8, 8, 1, 1}, std::move(w))});
    model.graph.nodes[static_cast<size_t>(i)].inputs[1] = fmt::format("w{}", i);
  }
  name_nodes(model);
  std::vector<double> times;
  for (int k = 0; k < 7; ++k)
    times.push_back(seconds([&] {
      Model shaped = infer_shapes(model);
      Quantizer quantizer(shaped, any_ranges(shaped), {});
      serialize(quantizer.quantize_excluding({}));
    }));
  fmt::print("1,000 nodes: shapes, index, quantize and serialize {:.3f} s (goal 0.3)\n", median(times));
}

}  // namespace

int main() {
  const char* cases = std::getenv("SEQTO_CASES_DIR");
  std::string path = std::string(cases ? cases : "") + "/mobilenetv2/model.onnx";
  if (std::filesystem::exists(path)) one_more_candidate(path);
  else fmt::print("candidate: skipped, {} is not there\n", path);
  thousand_nodes();
}
