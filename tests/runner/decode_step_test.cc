#include "runner/text/decode_step.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

using Names = std::vector<std::string>;

const Names kInputs{"input_ids", "attention_mask", "position_ids", "past_key_values.0.key", "past_key_values.0.value"};
const Names kOutputs{"logits", "present.0.value", "present.0.key"};

TEST(DecodeStep, PairsMemoriesByTheRestOfTheirNames) {
  const auto step = find_decode_step(kInputs, kOutputs);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->memories, (std::vector<std::pair<size_t, size_t>>{{3, 2}, {4, 1}}));
  const auto old = find_decode_step(Names{"past_0", "input_ids"}, Names{"logits", "present_0"});
  ASSERT_TRUE(old);
  EXPECT_EQ(old->memories, (std::vector<std::pair<size_t, size_t>>{{0, 1}}));
}

TEST(DecodeStep, IsNoneWithoutMemoryOrWithOtherInputs) {
  EXPECT_FALSE(find_decode_step(Names{"input_ids"}, Names{"logits"}));
  EXPECT_FALSE(find_decode_step(Names{"input_ids", "past_0"}, Names{"logits", "present_1"}));
  EXPECT_FALSE(find_decode_step(Names{"inputs_embeds", "past_0"}, Names{"logits", "present_0"}));
  EXPECT_FALSE(find_decode_step(Names{"input_ids", "past"}, Names{"logits", "present"}));
}

TEST(DecodeStep, GoesOnBehindThePrompt) {
  const auto step = find_decode_step(kInputs, kOutputs);
  ASSERT_TRUE(step);
  const Tensor nothing = float_tensor({1, 2, 0, 1}, {});
  const std::vector<Tensor> prompt{int64_tensor({1, 3}, {5, 6, 7}), int64_tensor({1, 3}, {1, 1, 1}),
                                   int64_tensor({1, 3}, {0, 1, 2}), nothing, nothing};
  const Tensor key = float_tensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6}),
               value = float_tensor({1, 2, 3, 1}, {6, 5, 4, 3, 2, 1});
  const Tensor scores = float_tensor({1, 3, 4}, {9, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 2});
  const auto next = next_inputs(*step, prompt, std::vector{scores, value, key});
  ASSERT_TRUE(next);
  EXPECT_TRUE((*next)[0].equals(int64_tensor({1, 1}, {2})));
  EXPECT_TRUE((*next)[1].equals(int64_tensor({1, 4}, {1, 1, 1, 1})));
  EXPECT_TRUE((*next)[2].equals(int64_tensor({1, 1}, {3})));
  EXPECT_TRUE((*next)[3].equals(key));
  EXPECT_TRUE((*next)[4].equals(value));
  EXPECT_FALSE(next_inputs(*step, prompt, std::vector{scores, value, int64_tensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})}));
}

TEST(DecodeStep, NumbersStayAndPositionsOfOneAxisGoOn) {
  const auto step = find_decode_step(Names{"input_ids", "past_0", "num_logits_to_keep", "cache_position"},
                                     Names{"logits", "present_0"});
  ASSERT_TRUE(step);
  const Tensor past = float_tensor({2, 1, 2, 0, 1}, {}),
               present = float_tensor({2, 1, 2, 3, 1}, std::vector<float>(12));
  std::vector<Tensor> prompt{int64_tensor({1, 3}, {5, 6, 7}), past, int64_tensor({}, {0}),
                             int64_tensor({3}, {0, 1, 2})};
  const std::vector<Tensor> answers{float_tensor({1, 3, 2}, {9, 0, 0, 9, 0, 9}), present};
  const auto next = next_inputs(*step, prompt, answers);
  ASSERT_TRUE(next);
  EXPECT_TRUE((*next)[1].equals(present));
  EXPECT_TRUE((*next)[2].equals(int64_tensor({}, {0})));
  EXPECT_TRUE((*next)[3].equals(int64_tensor({1}, {3})));
  prompt[2] = int64_tensor({1}, {0});
  EXPECT_FALSE(next_inputs(*step, prompt, answers)) << "an input of which nothing is known";
}

TEST(DecodeStep, CountsAPastThatWasGiven) {
  const auto step = find_decode_step(kInputs, kOutputs);
  ASSERT_TRUE(step);
  const Tensor past = float_tensor({1, 2, 5, 1}, std::vector<float>(10)),
               present = float_tensor({1, 2, 7, 1}, std::vector<float>(14));
  const std::vector<Tensor> prompt{int64_tensor({1, 2}, {5, 6}), int64_tensor({1, 7}, std::vector<int64_t>(7, 1)),
                                   int64_tensor({1, 2}, {5, 6}), past, past};
  const auto next = next_inputs(*step, prompt, std::vector{float_tensor({1, 2, 2}, {9, 0, 0, 9}), present, present});
  ASSERT_TRUE(next);
  EXPECT_TRUE((*next)[1].equals(int64_tensor({1, 8}, std::vector<int64_t>(8, 1))));
  EXPECT_TRUE((*next)[2].equals(int64_tensor({1, 1}, {7})));
}

}  // namespace
}  // namespace seqto::internal
