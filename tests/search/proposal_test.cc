#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

Proposal proposed() {
  Proposal proposal;
  proposal.plan.schemes = {{"conv1", Scheme::kInt8Weights}, {"fc", Scheme::kFloat16}};
  proposal.part = Part::kSearch;
  proposal.step = "one-in";
  proposal.number = 17;
  proposal.race = Race{.loss = "kl",
                       .least_samples = 2,
                       .share_seen = 1.0 / 3,
                       .difficulty = {0.1, 1e-17, 4.0 / 3},
                       .rivals = {{123456789, 0, 0.1 + 0.2}, {98765.5, 1.0 / 7, 0}},
                       .latency_ns = 1e9 / 3};
  return proposal;
}

TEST(ProposalJson, KeepsEveryBit) {
  const Proposal there = proposed();
  const std::string text = proposal_to_json(there);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Proposal back = proposal_from_json(text);
  EXPECT_EQ(back.plan, there.plan);
  EXPECT_EQ(back.part, there.part);
  EXPECT_EQ(back.step, there.step);
  EXPECT_EQ(back.number, there.number);
  EXPECT_EQ(back.race, there.race);
  EXPECT_EQ(proposal_to_json(back), text);
}

TEST(ProposalJson, NeedsNoRace) {
  const Proposal back = proposal_from_json(R"({"plan": {}, "part": "acceptance"})");
  EXPECT_FALSE(back.race);
  EXPECT_EQ(back.part, Part::kAcceptance);
  EXPECT_EQ(back.number, -1);
}

TEST(ProposalJson, SaysWhatIsNone) {
  for (const char* text :
       {"", "[]", "{}", R"({"plan": {}})", R"({"plan": {}, "part": "every"})",
        R"({"plan": {"a": "int3"}, "part": "search"})", R"({"plan": {}, "part": "search", "race": {"loss": 1}})"})
    EXPECT_THROW(proposal_from_json(text), Error) << text;
}

TEST(Race, EndsOnceARivalHasWonOrMostIsSeen) {
  const Race race{
      .loss = "kl", .least_samples = 2, .share_seen = 0.9, .difficulty = {1, 1, 1, 1}, .rivals = {{100, 0, 0.5}}};
  const std::vector<Losses> mild(4, {.kl = 0.1}), severe(2, {.kl = 1.1});
  EXPECT_TRUE(race.is_over(severe, 100)) << "2.2 / 4 is more than the rival loses";
  EXPECT_FALSE(race.is_over(severe, 99)) << "smaller than the rival";
  EXPECT_FALSE(race.is_over(std::span(severe).first(1), 100)) << "too few";
  EXPECT_FALSE(race.is_over(std::span(mild).first(3), 100));
  EXPECT_TRUE(race.is_over(mild, 100));
}

}  // namespace
}  // namespace seqto
