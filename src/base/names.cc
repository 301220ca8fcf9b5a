#include "base/names.h"

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
