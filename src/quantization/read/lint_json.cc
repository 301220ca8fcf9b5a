// What lint() found, as JSON.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "seqto/target.h"

namespace seqto {

std::string lint_to_json(const Lint& result) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema_version", 1}, {"target", result.target}, {"known", result.known}};
  for (const Verdict v :
       {Verdict::kIntegers, Verdict::kFused, Verdict::kConversion, Verdict::kFloat, Verdict::kOther, Verdict::kRefused})
    json["counts"][std::string(to_string(v))] = result.count(v);
  json["counts"]["wasted"] = result.wasted();
  json["nodes"] = Json::array();
  for (const LintedNode& n : result.nodes)
    json["nodes"].push_back({{"node", n.node},
                             {"op_type", n.op_type},
                             {"verdict", to_string(n.verdict)},
                             {"wasted", n.wasted},
                             {"reason", n.reason}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace seqto
