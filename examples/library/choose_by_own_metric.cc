// A tune whose choice is made by a metric of our own: the smallest point of the front that keeps enough of the float
// model's confidence. Progress goes where we want it, and the study may be stopped and gone on with.
//
//   choose_by_own_metric MODEL.onnx DATA DIR [LARGEST_DROP]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "seqto/error.h"
#include "seqto/tune.h"

namespace {

using namespace seqto;

// The softmax probability of class `of`.
double confidence(std::span<const float> scores, size_t of) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float score : scores) sum += std::exp(score - highest);
  return std::exp(scores[of] - highest) / sum;
}

Outputs answers(const std::filesystem::path& model, const Dataset& data, Runner& runner) {
  auto session = runner.load_file(model.string());
  Outputs outputs;
  for (int64_t i = 0; i < data.size(); ++i) outputs.append(session->run(data.read(i).inputs).front().values<float>());
  return outputs;
}

// How much confidence in the float model's answer is lost on the sample that suffers most.
double largest_drop(const Outputs& reference, const Outputs& candidate) {
  double drop = 0;
  for (int64_t i = 0; i < reference.rows; ++i) {
    const auto row = reference.row(i);
    const auto answer = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    drop = std::max(drop, confidence(row, answer) - confidence(candidate.row(i), answer));
  }
  return drop;
}

int choose(const char* model_path, const char* data_path, const char* dir, double limit) {
  TuneOptions options;
  options.model = model_path;
  options.data = data_path;
  options.output = dir;
  options.search.objectives = {"kl", "size"};
  options.max_evaluations = 80;
  Env env;
  env.progress = [](const Progress& p) {
    if (p.done == p.total)
      std::fprintf(stderr, "%.*s: %lld\n", static_cast<int>(p.verb.size()), p.verb.data(),
                   static_cast<long long>(p.done));
  };
  const Summary summary = tune(options, env);

  const Model model = load_model(model_path);
  auto data = open_dataset(data_path, model.graph.free_inputs());
  auto runner = make_runner("cpu");
  const Outputs reference = answers(model_path, *data, *runner);
  for (const SummaryPoint& point : summary.front) {  // by size, ascending
    const double drop = largest_drop(reference, answers(options.output / point.file, *data, *runner));
    std::printf("%s  %-10s  confidence falls by at most %.4f\n", point.trial.id.c_str(),
                format_bytes(point.trial.measurement->size_bytes).c_str(), drop);
    if (drop > limit) continue;
    std::printf("chosen: %s\n", (options.output / point.file).c_str());
    return 0;
  }
  std::printf("no point of the front keeps the fall below %g\n", limit);
  return static_cast<int>(Code::kGateNotMet);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: choose_by_own_metric MODEL.onnx DATA DIR [LARGEST_DROP]\n"), 2;
  try {
    return choose(argv[1], argv[2], argv[3], argc > 4 ? std::atof(argv[4]) : 0.05);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
