// Which samples of a data set are used: selection and split.
#include "data/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/random.h"
#include "seqto/error.h"

namespace seqto {
namespace internal {

std::vector<int64_t> draw(int64_t size, int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<int64_t> indices(size);
  std::iota(indices.begin(), indices.end(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(indices[i], indices[i + static_cast<int64_t>(below(static_cast<uint64_t>(size - i), engine))]);
  }
  indices.resize(count);
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<int64_t> select(int64_t size, const DatasetOptions& options) {
  if (options.samples < 0 || options.random_samples < 0) {
    throw Error(Code::kInvalidInput, "[data] a negative number of samples found; 0 (all) or more expected");
  }
  const int64_t available = options.samples > 0 ? std::min(size, options.samples) : size;
  if (options.random_samples > available) {
    throw Error(Code::kInvalidInput, fmt::format("[data] {} samples found; {} to draw; ask for at most {}", available,
                                                 options.random_samples, available));
  }
  return draw(available, options.random_samples > 0 ? options.random_samples : available, options.seed);
}

}  // namespace internal

Split split(int64_t size, const SplitOptions& options) {
  if (options.calibration < 0 || options.search < 0 || options.evaluation < 0) {
    throw Error(Code::kInvalidInput, "[data] a negative number of samples found; 0 or more expected");
  }
  // Compared one after the other, so that huge figures cannot overflow.
  const bool enough = options.calibration <= size && options.search <= size - options.calibration &&
                      options.evaluation <= size - options.calibration - options.search;
  if (!enough) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {} samples found; {} for calibration, {} for search and {} for evaluation asked for; give "
                    "more data or ask for fewer",
                    size, options.calibration, options.search, options.evaluation));
  }
  Split result;
  const int64_t left = size - options.calibration - options.search;
  int64_t next = 0;
  const auto fill = [&next](std::vector<int64_t>& part, int64_t count) {
    part.resize(count);
    std::iota(part.begin(), part.end(), next);
    next += count;
  };
  fill(result.calibration, options.calibration);
  fill(result.search, options.search);
  fill(result.evaluation, options.evaluation > 0 ? options.evaluation : left);
  constexpr size_t kFew = 30;
  if (result.evaluation.size() < kFew) {
    result.notes.push_back(fmt::format("{} of {} samples are left for evaluation; figures of fewer than {} are coarse",
                                       result.evaluation.size(), size, kFew));
  }
  return result;
}

}  // namespace seqto
