#include "base/json.h"
#include "seqto/search.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quantization/plan/plan_json.h"
#include "search/strategies/loss_model.h"
#include "seqto/error.h"

namespace seqto {

using namespace internal;
using Json = nlohmann::ordered_json;

WhatIf what_if(const SearchSpace& space, const StrategyOptions& options, const Study& study) {
  StrategyOptions by_loss = options;  // what a search by latency steadies its losses with is no loss to show
  std::erase_if(by_loss.objectives, [](const auto& name) { return name == "latency" || name == "decode_latency"; });
  Archive archive(space, by_loss);
  archive.update(study);
  Assignments assignments(space);
  const ChoiceTable losses = expected_losses(archive, assignments);
  WhatIf result;
  result.loss = archive.loss();
  result.size_bytes = static_cast<double>(space.size_of({}));
  if (space.latency_of) result.latency_ns = space.latency_of({});
  // A group alone in float pays for conversions at its borders; all groups together pay for none.
  double time = 1;
  if (space.latency_of) {
    Assignment fastest = assignments.all_float();
    for (size_t g = 0; g < fastest.size(); ++g)
      fastest[g] =
          static_cast<int>(std::ranges::max_element(assignments.time_saved()[g]) - assignments.time_saved()[g].begin());
    const double sum = total(assignments.time_saved(), fastest);
    if (sum > 0) time = (result.latency_ns - space.latency_of(assignments.plan(fastest))) / sum;
  }
  for (size_t g = 0; g < space.groups.size(); ++g) {
    const SearchGroup& group = space.groups[g];
    WhatIf::Group& made = result.groups.emplace_back(group.layers);
    for (size_t c = 0; c < group.choices.size(); ++c)
      made.choices.push_back({group.schemes[c], losses[g][c], assignments.bytes_saved()[g][c],
                              space.latency_of ? time * assignments.time_saved()[g][c] : 0, group.choices[c]});
  }
  return result;
}

std::string what_if_to_json(const WhatIf& what_if) {
  Json json{{"loss", what_if.loss}, {"size_bytes", what_if.size_bytes}, {"latency_ns", what_if.latency_ns}};
  Json& groups = json["groups"] = Json::array();
  for (const WhatIf::Group& group : what_if.groups) {
    Json choices = Json::array();
    for (const WhatIf::Choice& choice : group.choices) {
      Json layers = internal::parse_json<Json>(plan_to_json(choice.plan)).at("schemes");
      choices.push_back({{"scheme", to_string(choice.scheme)},
                         {"loss", choice.loss},
                         {"bytes_saved", choice.bytes_saved},
                         {"ns_saved", choice.ns_saved},
                         {"layers", std::move(layers)}});
    }
    groups.push_back({{"layers", group.layers}, {"choices", std::move(choices)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

WhatIf what_if_from_json(const std::string& text) {
  try {
    const Json json = internal::parse_json<Json>(text);
    WhatIf result{json.at("loss"), json.at("size_bytes"), json.at("latency_ns"), {}};
    for (const Json& group : json.at("groups")) {
      WhatIf::Group& made = result.groups.emplace_back(group.at("layers").get<std::vector<LayerId>>());
      for (const Json& choice : group.at("choices")) {
        WhatIf::Choice& read =
            made.choices.emplace_back(parse_detailed_scheme(choice.at("scheme").get<std::string>()),
                                      choice.at("loss").is_number() ? choice.at("loss").get<double>() : 0,
                                      choice.at("bytes_saved"), choice.at("ns_saved"));
        read.plan = internal::plan_of(choice.at("layers"));
      }
    }
    return result;
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput,
                std::string("[report] what the search learned of groups expected; ") + error.what());
  }
}

}  // namespace seqto
