// The losses by name: one list for JSON, objectives and thresholds.
#pragma once

#include <array>
#include <string_view>

#include "seqto/metrics.h"

namespace seqto {

struct LossField {
  std::string_view name;
  double Losses::* value;
};

inline constexpr std::array<LossField, 8> kLossFields{{
    {"kl", &Losses::kl},
    {"top1_disagreement", &Losses::top1_disagreement},
    {"top5_disagreement", &Losses::top5_disagreement},
    {"rank_dissimilarity", &Losses::rank_dissimilarity},
    {"mse", &Losses::mse},
    {"cosine", &Losses::cosine},
    {"nmse", &Losses::nmse},
    {"probability_change", &Losses::probability_change},
}};

}  // namespace seqto
