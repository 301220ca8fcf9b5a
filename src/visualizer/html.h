// Pieces of HTML that the sections of report.html share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "seqto/report.h"

namespace seqto::internal {

// Every text of the model or the user goes through this on its way into the page.
std::string text(std::string_view raw);

// The head of a table that sorts: a button a column.
std::string heads(const std::vector<std::string>& names);
// One of them; `more`: shown with all columns alone.
std::string sort_head(const std::string& name, bool more = false);

// A figure that sorts by its value, whatever its text; NaN gives an empty cell.
std::string cell(double value, const std::string& shown);
std::string empty_cell();

std::string script(std::string_view code);

// From the doctype to <main>, with the style sheet. Nothing is fetched, and no script is run but those of assets.h, not
// even by a page that someone has changed.
std::string page_head(const std::string& title);
// The choice between light and dark; page.js shows it.
std::string colours_switch();
// A frame that page.js draws a plot into; plots of a loss have a switch for its scale. `hint`, and `below` behind the
// plot, are HTML.
std::string plot_section(const std::string& id, const std::string& heading, const std::string& hint,
                         const std::string& below = "");

// Whether the point has figures; null: no.
bool measured(const SummaryPoint* point);

}  // namespace seqto::internal
