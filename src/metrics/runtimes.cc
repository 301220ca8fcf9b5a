#include "seqto/runtimes.h"

#include <algorithm>
#include <memory>

#include "metrics/where_they_part.h"
#include "runner/runtimes.h"
#include "seqto/error.h"

namespace seqto {
namespace {

class Matrix {
 public:
  Matrix(const std::vector<RuntimeFile>& files, const std::vector<std::string>& names, const ParityOptions& options,
         const RunnerOptions& runner, const Env& env)
      : files_(files), env_(env) {
    result_.options = options;
    result_.options.worst = std::max<size_t>(1, options.worst);  // the one that tells where it begins
    for (const RuntimeFile& file : files) result_.paths.push_back(file.path);
    for (const std::string& name : names) {
      runners_.push_back(internal::make_runtime(name, runner, env));
      result_.runtimes.push_back({name, runners_.back()->description()});
    }
    for (const RuntimeFile& file : files) runners_.front()->load_file(file.path);  // or throws
    result_.samples = files.front().data->size();
    result_.random_inputs = files.front().data->is_random();
  }

  RuntimeMatrix run() && {
    for (size_t r = 0; r < runners_.size(); ++r) {
      for (size_t f = 0; r > 0 && f < files_.size(); ++f) add_across(r, f);
      if (files_.size() > 1) add_pair(r);
    }
    return std::move(result_);
  }

 private:
  ParitySide side(size_t r, size_t f) const { return {files_[f].path, runners_[r].get(), files_[f].data}; }

  // A runtime that does not take a file is a result; what else goes wrong ends the verb.
  template <class F>
  static std::string refusal_of(F work) {
    try {
      work();
      return "";
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted || error.code() == Code::kUsage) throw;
      return error.what();
    }
  }

  void add(RuntimeComparison comparison, const ParitySide& reference, const ParitySide& candidate) {
    comparison.path = candidate.path;
    comparison.refusal = refusal_of([&] { comparison.parity = validate(reference, candidate, result_.options, env_); });
    result_.comparisons.push_back(std::move(comparison));
  }

  void add_pair(size_t r) { add({.runtime = result_.runtimes[r].name}, side(r, 0), side(r, 1)); }

  void add_across(size_t r, size_t f) {
    add({.runtime = result_.runtimes[r].name, .against = result_.runtimes[0].name}, side(0, f), side(r, f));
    RuntimeComparison& comparison = result_.comparisons.back();
    if (!comparison.parity || comparison.parity->worst.empty()) return;
    comparison.not_found = refusal_of([&] {
      Model model = infer_shapes(load_model(files_[f].path));
      name_nodes(model);
      const Sample sample = files_[f].data->read(comparison.parity->worst.front().index);
      const auto parting =
          internal::where_they_part({model, *runners_[0], *runners_[r], sample}, !passed(*comparison.parity), env_);
      comparison.error = parting.error, comparison.first = parting.first;
    });
  }

  const std::vector<RuntimeFile>& files_;
  const Env& env_;
  std::vector<std::unique_ptr<Runner>> runners_;
  RuntimeMatrix result_;
};

}  // namespace

bool passed(const RuntimeComparison& comparison) { return comparison.parity && passed(*comparison.parity); }

bool passed(const RuntimeMatrix& matrix) {
  return std::ranges::all_of(matrix.comparisons, [](const RuntimeComparison& c) { return passed(c); });
}

RuntimeMatrix compare_runtimes(const std::vector<RuntimeFile>& files, const std::vector<std::string>& runtimes,
                               const ParityOptions& options, const RunnerOptions& runner, const Env& env) {
  if (files.empty() || runtimes.size() < 2)
    throw Error(Code::kUsage, "[validate] fewer than two runtimes or no file found; a file and two runtimes expected");
  return Matrix(files, runtimes, options, runner, env).run();
}

}  // namespace seqto
