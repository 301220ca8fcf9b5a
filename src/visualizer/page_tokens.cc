// The section of report.html about text that the selected model goes on with in other words.
#include <fmt/format.h>

#include "visualizer/format.h"
#include "visualizer/html.h"
#include "visualizer/page_sections.h"
#include "visualizer/points.h"

namespace seqto::internal {

std::string tokens_section(const Summary& summary) {
  if (!summary.changed_tokens || summary.changed_tokens->samples == 0) return "";
  const ChangedTokens& tokens = *summary.changed_tokens;
  const SummaryPoint* selected = find_point(summary, summary.selected);
  const std::string name = text(selected ? selected->name : summary.selected);
  std::string rows;
  for (const ChangedToken& t : tokens.examples)
    rows += fmt::format(
        "<tr><th scope=\"row\">{}, {}</th><td class=\"reason\">{}</td><td class=\"text\">“{}”</td><td>{}</td><td "
        "class=\"text\">“{}”</td><td>{}</td></tr>\n",
        text(t.sample), t.position, text(t.before), text(t.reference), format_percent(t.reference_share),
        text(t.candidate), format_percent(t.candidate_share));
  const std::string table = fmt::format(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Changed tokens\"><table id=\"tokens\"><thead>"
      "<tr><th scope=\"col\">sample, token</th><th scope=\"col\" class=\"text\">text before</th><th scope=\"col\" "
      "class=\"text\">float</th><th "
      "scope=\"col\">its share</th><th scope=\"col\" class=\"text\">{}</th><th scope=\"col\">its "
      "share</th></tr></thead><tbody>\n{}"
      "</tbody></table></div>",
      name, rows);
  return fmt::format(
      "<section class=\"long\"><h2>Where the next token changes</h2>\n<p class=\"hint\">{} gives another likeliest "
      "token than float somewhere in {} of {} samples. Of each sample the first place; on top where float tells "
      "the two apart most. Shares are those that float gives to both.</p>\n{}</section>\n",
      name, tokens.changed, tokens.samples, rows.empty() ? "" : table);
}

}  // namespace seqto::internal
