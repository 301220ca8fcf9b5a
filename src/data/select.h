// Which samples of a data set are used.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// That a search takes, where there are enough.
constexpr int64_t kSearchSamples = 64;

// `count` of 0..size-1 without replacement, ascending; the same for a seed on every platform.
std::vector<int64_t> draw(int64_t size, int64_t count, uint64_t seed);

// As mixed_order(), of samples of these kinds.
std::vector<int64_t> mixed(std::span<const SampleKind> kinds, uint64_t seed);

// Classes by the folders that files lie in, else by their names up to a number: cat_01.png and cat_02.png. Empty where
// they tell nothing.
std::vector<std::string> classes_of(std::span<const std::string> files);
// Sets `kind` of files with `name` and `label`: the label, else the class.
template <class File>
void tell_kinds(std::vector<File>& files) {
  std::vector<std::string> names;
  for (const File& file : files) names.push_back(file.name);
  const std::vector<std::string> classes = classes_of(names);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].label >= 0) files[i].kind = std::to_string(files[i].label);
    else if (!classes.empty()) files[i].kind = classes[i];
  }
}

// The indices that the options ask for, in their order. `kind_of` tells what is known of one. Throws
// Error{kInvalidInput} where more are to be drawn than there are.
std::vector<int64_t> select(int64_t size, const DatasetOptions& options,
                            const std::function<SampleKind(int64_t)>& kind_of = {});

}  // namespace seqto::internal
