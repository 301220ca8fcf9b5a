#include <algorithm>
#include <cmath>
#include <set>

#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"
#include "search/strategies/transformer_parts.h"

namespace seqto {
namespace {

using namespace internal;

// Value and down projections of the first and the last eighth of the blocks and of every third between them.
std::set<LayerId> of_mixed_blocks(const std::vector<TransformerParts::Block>& blocks) {
  std::set<LayerId> layers;
  const auto count = static_cast<double>(blocks.size());
  const int first = static_cast<int>(std::nearbyint(count / 8));
  for (int b = 0; b < std::ssize(blocks); ++b) {
    const bool is_third = b >= first && (b - first) % 3 == 2;
    if (b >= count / 8 && b < 7 * count / 8 && !is_third) continue;
    layers.insert(blocks[b].values.begin(), blocks[b].values.end());
    layers.insert(blocks[b].down);
  }
  return layers;
}

class MixedLayers : public Replay {
 public:
  using Replay::Replay;

 private:
  void search() override {
    const std::vector<DetailedScheme> schemes = assignments_.schemes_by_bytes();
    const Assignment low = assignments_.uniform(schemes[0]),
                     high = schemes.size() > 1 ? assignments_.uniform(schemes[1]) : assignments_.all_float();
    const TransformerParts parts = transformer_parts(*space_.model);
    const std::set<LayerId> mixed = of_mixed_blocks(parts.blocks);
    std::vector<Assignment> plans{low, low, low, low};
    for (size_t g = 0; g < low.size(); ++g)
      for (const LayerId& layer : space_.groups[g].layers) {
        if (layer == parts.head) plans[1][g] = plans[3][g] = high[g];
        if (mixed.contains(layer)) plans[2][g] = plans[3][g] = high[g];
      }
    plans.push_back(high);
    require_limit(std::set<Assignment>(plans.begin(), plans.end()).size());
    losses(plans);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_mixed_layers(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<MixedLayers>(space, options);
}

}  // namespace seqto
