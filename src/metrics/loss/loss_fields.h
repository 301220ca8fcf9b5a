// The losses by name: one list for JSON, objectives and thresholds.
#pragma once

#include <array>
#include <string_view>

#include "seqto/metrics.h"

namespace seqto {

struct LossField {
  std::string_view name;
  double Losses::* value;
  bool is_share = false;  // from 0 to 1
};

inline constexpr std::array<LossField, 8> kLossFields{{
    {"kl", &Losses::kl},
    {"top1_disagreement", &Losses::top1_disagreement, true},
    {"top5_disagreement", &Losses::top5_disagreement, true},
    {"rank_dissimilarity", &Losses::rank_dissimilarity, true},
    {"mse", &Losses::mse},
    {"cosine", &Losses::cosine},
    {"nmse", &Losses::nmse},
    {"probability_change", &Losses::probability_change, true},
}};

}  // namespace seqto
