#include "orchestrator/study/name_points.h"

#include <fmt/format.h>

#include <map>

namespace seqto::internal {
namespace {

constexpr size_t kDigits = 8;  // enough for every hash of a study to be told from the others

class Names {
 public:
  void number(const DeviceFront& device) {
    for (const SummaryPoint& p : device.front)
      if (const auto [name, is_new] = names_.try_emplace(p.trial.id); is_new) name->second = fmt::to_string(++last_);
  }
  void give(DeviceFront& device) const {
    for (auto* list : {&device.front, &device.trials})
      for (SummaryPoint& p : *list) give(p);
    give(device.baseline);
    give(device.fully_quantized);
  }

 private:
  void give(SummaryPoint& p) const {
    const auto known = names_.find(p.trial.id);
    p.name = known == names_.end() ? p.trial.id.substr(0, kDigits) : known->second;
  }

  // By id; these stay the same whatever the front becomes.
  std::map<std::string, std::string> names_{
      {"float", "float"}, {"full", "int8"}, {"published", "ort-int8"}, {"first", "first"}};
  int last_ = 0;
};

}  // namespace

void name_points(Summary& summary) {
  Names names;
  names.number(summary);
  for (const DeviceFront& d : summary.elsewhere) names.number(d);
  names.give(summary);
  for (DeviceFront& d : summary.elsewhere) names.give(d);
}

}  // namespace seqto::internal
