#include "visualizer/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/verdicts.h"
#include "visualizer/format.h"
#include "visualizer/html.h"

namespace seqto {
namespace internal {
namespace {

std::vector<int> widths_of(const DocumentTable& table) {
  std::vector<int> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    int most = screen_width(table.columns[c]);
    for (const auto& row : table.rows) most = std::max(most, screen_width(row[c]));
    widths.push_back(most);
  }
  return widths;
}

std::string line(const DocumentTable& table, const std::vector<int>& widths, const std::vector<std::string>& cells) {
  std::string text;
  for (size_t c = 0; c < cells.size(); ++c) {
    const std::string padding(static_cast<size_t>(widths[c] - screen_width(cells[c])), ' ');
    text += (c ? "  " : "") + (c < table.text_columns ? cells[c] + padding : padding + cells[c]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

// A cell or a sentence: what Markdown would take for its own signs is kept as text.
std::string markdown(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (std::string_view("\\`*_|<>[]#").find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string html_table(const DocumentTable& table) {
  std::string text = "<section>\n";
  if (!table.title.empty()) text += fmt::format("<h2>{}</h2>\n", escape_html(table.title));
  text += "<div class=\"wide\"><table>\n<thead><tr>";
  auto cells = [&](const char* tag, const std::vector<std::string>& row) {
    for (size_t c = 0; c < row.size(); ++c)
      text +=
          fmt::format("<{0}{1}>{2}</{0}>", tag, c < table.text_columns ? " class=\"text\"" : "", escape_html(row[c]));
  };
  cells("th", table.columns);
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    cells("td", row);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n</section>\n";
}

}  // namespace

std::string to_text(const Document& d) {
  std::string text;
  for (const DocumentTable& table : d.tables) {
    if (table.rows.empty()) continue;
    if (!table.title.empty()) text += table.title + ":\n";
    const std::vector<int> widths = widths_of(table);
    text += line(table, widths, table.columns);
    for (const auto& row : table.rows) text += line(table, widths, row);
    text += "\n";
  }
  for (const auto& finding : d.findings) text += finding + "\n";
  return text + d.verdict + "\n";
}

std::string to_markdown(const Document& d) {
  std::string text = fmt::format("# {}\n\n**{}**\n\n", markdown(d.title), markdown(d.verdict));
  for (const auto& finding : d.findings) text += "- " + markdown(finding) + "\n";
  if (!d.findings.empty()) text += "\n";
  for (const DocumentTable& table : d.tables) {
    if (table.rows.empty()) continue;
    if (!table.title.empty()) text += "## " + markdown(table.title) + "\n\n";
    auto row_text = [&](const std::vector<std::string>& row) {
      text += "|";
      for (const auto& cell : row) text += fmt::format(" {} |", markdown(cell));
      text += "\n";
    };
    row_text(table.columns);
    text += "|";
    for (size_t c = 0; c < table.columns.size(); ++c) text += c < table.text_columns ? "---|" : "--:|";
    text += "\n";
    for (const auto& row : table.rows) row_text(row);
    text += "\n";
  }
  for (const auto& fact : d.facts) text += "- " + markdown(fact) + "\n";
  return text;
}

std::string to_html(const Document& d) {
  std::string text = page_head(d.title) + (d.scripts.empty() ? "" : colours_switch());
  text += fmt::format("<h1>{}</h1>\n<div class=\"tile{}\" role=\"status\"><b>{}</b></div>\n", escape_html(d.title),
                      d.good ? "" : " selected", escape_html(d.verdict));
  auto list = [&](const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += "<section><ul>\n";
    for (const auto& l : lines) text += fmt::format("<li>{}</li>\n", escape_html(l));
    text += "</ul></section>\n";
  };
  list(d.findings);
  text += d.html;
  for (const DocumentTable& table : d.tables)
    if (!table.rows.empty()) text += html_table(table);
  list(d.facts);
  return text + "</main>\n" + d.scripts + "</body>\n</html>\n";
}

void write_document(const Document& document, const std::string& json, const std::filesystem::path& file) {
  require_report_name(file);
  const std::string ending = file.extension().string();
  write_file_atomic(file, ending == ".json" ? json : ending == ".md" ? to_markdown(document) : to_html(document));
}

}  // namespace internal

void require_report_name(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending != ".json" && ending != ".md" && ending != ".html")
    throw Error(Code::kUsage,
                fmt::format("[report] {} found; a name that ends in .html, .md or .json expected", file.string()));
}

}  // namespace seqto
