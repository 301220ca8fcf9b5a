#include "quantization/encode/marks.h"

namespace seqto::internal {

Mark* MarkMap::find(const std::string& name) {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second].mark;
}

void MarkMap::set(const std::string& name, Mark mark) {
  if (Mark* old = find(name)) {
    *old = std::move(mark);
    return;
  }
  index_[name] = entries_.size();
  entries_.push_back({name, std::move(mark), true});
}

void MarkMap::erase(const std::string& name) {
  auto it = index_.find(name);
  if (it == index_.end()) return;
  entries_[it->second].alive = false;
  index_.erase(it);
}

}  // namespace seqto::internal
