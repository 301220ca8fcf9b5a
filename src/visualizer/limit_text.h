// Figures and the limits on them, as text and as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>
#include "base/json.h"

#include "seqto/validate.h"
#include "visualizer/document.h"

namespace seqto::internal {

// In the unit of the figure: "49.50 kB", "98.83 %", "0.0003964".
std::string figure_text(const std::string& figure, double value);
std::string figure_text(const std::string& figure, const std::optional<Interval>& interval);  // "-" for none

DocumentTable limits_table(const std::string& title, std::span<const CheckedLimit> limits);
// "size_bytes: 49.50 kB found; at most 40.00 kB allowed by --max-size; 9.50 kB too much".
std::string limit_sentence(const CheckedLimit& limit);
std::vector<std::string> limit_failures(std::span<const CheckedLimit> limits);  // of those not met
nlohmann::ordered_json limits_json(std::span<const CheckedLimit> limits);
nlohmann::ordered_json interval_json(const std::optional<Interval>& interval);

}  // namespace seqto::internal
