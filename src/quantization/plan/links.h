// Room: quantization/plan. Which things belong together, as pairs of them are found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace seqto::internal {

// Sets of numbers, merged as links are found. A set is known by its smallest.
class Links {
 public:
  explicit Links(size_t count = 0) {
    while (size() < count) add();
  }
  size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  size_t find(size_t id) {
    while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
    return id;
  }
  size_t size() const { return parents_.size(); }
  void link(size_t a, size_t b) {
    const size_t x = find(a), y = find(b);
    parents_[std::max(x, y)] = std::min(x, y);
  }

 private:
  std::vector<size_t> parents_;
};

}  // namespace seqto::internal
