// Room: visualizer. Several models beside each other: one table, overview.json and index.html. Computes nothing itself.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "seqto/report.h"

namespace seqto {

// One model of a run. Its reports lie in the folder `name` below the run's.
struct OverviewEntry {
  std::string name;
  std::optional<Summary> summary;  // absent: not tuned
  std::string failure;             // why
};

// The terminal's table: a row a model; reasons of failures in full below it.
std::string overview_table(std::span<const OverviewEntry> entries, const TextStyle& style = {});

std::string overview_to_json(std::span<const OverviewEntry> entries);

// index.html (one file, links to every report) and overview.json below `dir`, each written to a temporary name, then
// renamed.
void write_overview(std::span<const OverviewEntry> entries, const std::filesystem::path& dir);

}  // namespace seqto
