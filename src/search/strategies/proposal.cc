#include <nlohmann/json.hpp>

#include "base/json.h"
#include "quantization/plan/plan_json.h"
#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

Json race_to_json(const Race& race) {
  Json rivals = Json::array();
  for (const Race::Rival& rival : race.rivals) rivals.push_back({rival.size_bytes, rival.latency_ns, rival.loss});
  return {{"loss", race.loss},
          {"least_samples", race.least_samples},
          {"share_seen", race.share_seen},
          {"difficulty", race.difficulty},
          {"rivals", std::move(rivals)},
          {"latency_ns", race.latency_ns}};
}

Race race_from_json(const Json& json) {
  Race race{.loss = json.at("loss"),
            .least_samples = json.at("least_samples"),
            .share_seen = json.at("share_seen"),
            .difficulty = json.at("difficulty").get<std::vector<double>>(),
            .latency_ns = json.at("latency_ns")};
  if (!is_loss(race.loss))
    throw Error(Code::kInvalidInput, "[proposal] a race by '" + race.loss + "' found; a loss expected, as in \"kl\"");
  for (const Json& rival : json.at("rivals")) race.rivals.push_back({rival.at(0), rival.at(1), rival.at(2)});
  return race;
}

}  // namespace

std::string proposal_to_json(const Proposal& proposal) {
  Json json{{"number", proposal.number},
            {"plan", internal::parse_json<Json>(plan_to_json(proposal.plan)).at("schemes")},
            {"excluded", proposal.excluded},
            {"part", to_string(proposal.part)},
            {"step", proposal.step}};
  if (proposal.race) json["race"] = race_to_json(*proposal.race);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Proposal proposal_from_json(const std::string& text) {
  try {
    const Json json = internal::parse_json<Json>(text);
    Proposal proposal;
    proposal.plan = internal::plan_of(json.at("plan"));
    if (json.contains("excluded")) json["excluded"].get_to(proposal.excluded);
    proposal.part = parse_part(json.at("part").get<std::string>());
    proposal.step = json.value("step", "");
    if (json.contains("race")) proposal.race = race_from_json(json["race"]);
    proposal.number = json.value("number", proposal.number);
    return proposal;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput, std::string("[proposal] a line of `seqto ask` expected; ") + error.what());
  }
}

}  // namespace seqto
