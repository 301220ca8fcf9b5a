// Room: visualizer. Several studies beside each other: as text, JSON and one HTML page. Computes nothing itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/report.h"

namespace seqto {

struct ComparedStudy {
  std::string name;  // of its folder, or the whole path where two folders are called alike
  Summary summary;
  // Of its front on its first device: ids of the points that no point of another study beats in everything compared.
  std::vector<std::string> leading;
};

struct Comparison {
  std::vector<ComparedStudy> studies;  // at least two
  std::vector<std::string>
      objectives;  // what `leading` compares: a loss, size, and latency where all studies searched it
  // Why figures of the studies cannot be held against each other, one sentence each; empty: they can.
  std::vector<std::string> warnings;
  // What is not the same everywhere; `values` by study, empty: absent there.
  struct Difference {
    std::string key;
    std::vector<std::string> values;
  };
  std::vector<Difference> options, environment;
  // Layers whose scheme differs between the selected points.
  struct LayerSchemes {
    LayerId layer;
    std::vector<std::string> schemes;  // by study; empty: it has no such layer
  };
  std::vector<LayerSchemes> layers;
};

std::string comparison_to_json(const Comparison& comparison);                            // docs/formats.md
std::string comparison_text(const Comparison& comparison, const TextStyle& style = {});  // for a terminal
// comparison.html (one file, no network), comparison.json and plots/fronts.svg below `dir`.
void write_comparison(const Comparison& comparison, const std::filesystem::path& dir);

}  // namespace seqto
