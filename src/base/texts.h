// Room: base. Texts that stand in many places, kept once each and spoken of by their positions.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace seqto::internal {

class Texts {
 public:
  // Where the text stands in list(); it is added where it is new.
  size_t at(const std::string& text) {
    const auto [found, fresh] = positions_.try_emplace(text, list_.size());
    if (fresh) list_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::unordered_map<std::string, size_t> positions_;
  std::vector<std::string> list_;
};

}  // namespace seqto::internal
