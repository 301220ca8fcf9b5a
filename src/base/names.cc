#include "base/names.h"

#include "seqto/error.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace seqto::internal {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t next = std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])});
      diagonal = row[j + 1];
      row[j + 1] = next;
    }
  }
  return row.back();
}

std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> known, size_t count) {
  std::set<std::pair<size_t, std::string>> nearest;
  for (const std::string& name : known) nearest.insert({edit_distance(text, name), name});
  std::vector<std::string> names;
  for (auto it = nearest.begin(); it != nearest.end() && names.size() < count; ++it) names.push_back(it->second);
  return names;
}

}  // namespace seqto::internal

namespace seqto {

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  // Two letters say too little for a beginning; one swap in a word of four is two edits.
  constexpr size_t kShortestBeginning = 3;
  size_t least = 1 + word.size() / 3 + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    const bool begun = word.size() >= kShortestBeginning && candidate.starts_with(word);
    const size_t distance = begun ? 1 : internal::edit_distance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    found = candidate;
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string name = nearest(word, candidates);
  return name.empty() ? "" : "; did you mean '" + name + "'?";
}

}  // namespace seqto
