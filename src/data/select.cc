// Which samples of a data set are used: selection and split.
#include "data/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

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

namespace {

// What is drawn as a whole: a sample, or a sequence of them.
struct Unit {
  std::vector<int64_t> samples;
  std::string kind;
  double place = 0;  // from 0 to 1
};

std::vector<Unit> units_of(std::span<const SampleKind> kinds) {
  std::vector<Unit> units;
  std::map<int64_t, size_t> of_sequence;
  for (int64_t i = 0; i < std::ssize(kinds); ++i) {
    const SampleKind& k = kinds[static_cast<size_t>(i)];
    const auto [at, is_new] =
        k.sequence < 0 ? std::pair(of_sequence.end(), true) : of_sequence.emplace(k.sequence, units.size());
    if (is_new) units.push_back({{i}, k.kind});
    else units[at->second].samples.push_back(i);
  }
  return units;
}

// "cat_" of "cat_01.png".
std::string before_number(const std::string& file) {
  std::string stem = std::filesystem::path(file).stem().string();
  while (!stem.empty() && std::string_view("0123456789_-. ()").find(stem.back()) != std::string_view::npos)
    stem.pop_back();
  return stem;
}

}  // namespace

// Each kind's units are spread evenly from a start of its own, so that the first tenth of all holds a tenth of each.
std::vector<int64_t> mixed(std::span<const SampleKind> kinds, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto chance = [&engine] { return static_cast<double>(engine() >> 11) * 0x1p-53; };
  std::vector<Unit> units = units_of(kinds);
  std::map<std::string, std::vector<size_t>> by_kind;
  for (size_t u = 0; u < units.size(); ++u) by_kind[units[u].kind].push_back(u);
  for (auto& [kind, members] : by_kind) {
    for (size_t i = 0; i + 1 < members.size(); ++i)
      std::swap(members[i], members[i + below(members.size() - i, engine)]);
    const double start = chance();
    for (size_t i = 0; i < members.size(); ++i)
      units[members[i]].place = (static_cast<double>(i) + start) / static_cast<double>(members.size());
  }
  std::ranges::stable_sort(units, {}, &Unit::place);
  std::vector<int64_t> order;
  for (const Unit& unit : units) std::ranges::copy(unit.samples, std::back_inserter(order));
  return order;
}

std::vector<std::string> classes_of(std::span<const std::string> files) {
  constexpr size_t kFewestOfOne = 4;  // on average: what is said by names may be chance
  std::vector<std::string> folders, names;
  for (const std::string& file : files) {
    folders.push_back(std::filesystem::path(file).parent_path().string());
    names.push_back(before_number(file));
  }
  const std::set<std::string> by_folder(folders.begin(), folders.end()), by_name(names.begin(), names.end());
  if (by_folder.size() > 1) return folders;
  if (by_name.size() > 1 && by_name.size() * kFewestOfOne <= files.size()) return names;
  return {};
}

std::vector<int64_t> select(int64_t size, const DatasetOptions& options,
                            const std::function<SampleKind(int64_t)>& kind_of) {
  if (options.samples < 0 || options.random_samples < 0) {
    throw Error(Code::kInvalidInput, "[data] a negative number of samples found; 0 (all) or more expected");
  }
  const int64_t available = options.samples > 0 ? std::min(size, options.samples) : size;
  if (options.random_samples > available) {
    throw Error(Code::kInvalidInput, fmt::format("[data] {} samples found; {} to draw; ask for at most {}", available,
                                                 options.random_samples, available));
  }
  std::vector<int64_t> first(static_cast<size_t>(size));
  std::iota(first.begin(), first.end(), 0);
  if (available < size && options.order == SampleOrder::kMixed) {
    std::vector<SampleKind> kinds;
    for (int64_t i = 0; i < size; ++i) {
      kinds.push_back(kind_of ? kind_of(i) : SampleKind());
      if (!options.states.empty() && (kinds.back().sequence < 0 || !options.state_reset.each_file))
        kinds.back().sequence = 0;
    }
    first = mixed(kinds, options.seed);
  }
  first.resize(static_cast<size_t>(available));
  if (options.random_samples == 0) return first;
  std::vector<int64_t> drawn;
  for (const int64_t i : draw(available, options.random_samples, options.seed)) drawn.push_back(first[i]);
  return drawn;
}

}  // namespace internal

std::string_view to_string(SampleOrder order) { return order == SampleOrder::kMixed ? "mixed" : "given"; }

SampleOrder parse_sample_order(std::string_view name) {
  for (const SampleOrder order : {SampleOrder::kGiven, SampleOrder::kMixed})
    if (name == to_string(order)) return order;
  throw Error(Code::kInvalidInput, fmt::format("[data] the sample order '{}' found; given or mixed expected", name));
}

SampleKind Dataset::kind(int64_t) const { return {}; }

std::vector<int64_t> mixed_order(const Dataset& data, uint64_t seed) {
  std::vector<SampleKind> kinds;
  for (int64_t i = 0; i < data.size(); ++i) kinds.push_back(data.kind(i));
  return internal::mixed(kinds, seed);
}

int64_t count_kinds(const Dataset& data) {
  std::set<std::string> kinds;
  for (int64_t i = 0; i < data.size(); ++i)
    if (std::string kind = data.kind(i).kind; !kind.empty()) kinds.insert(std::move(kind));
  return std::ssize(kinds);
}

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
