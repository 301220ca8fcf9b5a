#include "visualizer/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "visualizer/format.h"
#include "visualizer/html.h"

namespace seqto {
namespace internal {
namespace {

bool is_text(const TableColumn& column) {
  return column.kind != TableColumn::kFigure && column.kind != TableColumn::kValue;
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
  auto cell = [&](const char* tag, size_t c, const std::string& words) {
    text +=
        fmt::format("<{0}{1}>{2}</{0}>", tag, is_text(table.columns[c]) ? " class=\"text\"" : "", escape_html(words));
  };
  for (size_t c = 0; c < table.columns.size(); ++c) cell("th", c, table.columns[c].title);
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) cell("td", c, row[c]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n</section>\n";
}

}  // namespace

std::string to_text(const Document& d, const TextStyle& style) {
  std::string text;
  for (const DocumentTable& table : d.tables) {
    if (table.rows.empty()) continue;
    if (!table.title.empty()) text += table.title + ":\n";
    for (const auto& line : table_lines(table.columns, table.rows, style)) text += line + "\n";
    text += "\n";
  }
  for (const auto& finding : d.findings)
    text += (finding.colour ? painted(finding.text, *finding.colour, style) : finding.text) + "\n";
  return text + (d.judges ? painted(d.verdict, d.good ? Colour::kGood : Colour::kBad, style) : d.verdict) + "\n";
}

std::string to_markdown(const Document& d) {
  std::string text = fmt::format("# {}\n\n**{}**\n\n", markdown(d.title), markdown(d.verdict));
  for (const auto& finding : d.findings) text += "- " + markdown(finding.text) + "\n";
  if (!d.findings.empty()) text += "\n";
  for (const DocumentTable& table : d.tables) {
    if (table.rows.empty()) continue;
    if (!table.title.empty()) text += "## " + markdown(table.title) + "\n\n";
    auto row_text = [&](const std::vector<std::string>& row) {
      text += "|";
      for (const auto& cell : row) text += fmt::format(" {} |", markdown(cell));
      text += "\n";
    };
    TableRow titles;
    for (const TableColumn& column : table.columns) titles.push_back(column.title);
    row_text(titles);
    text += "|";
    for (const TableColumn& column : table.columns) text += is_text(column) ? "---|" : "--:|";
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
  std::vector<std::string> findings;
  for (const auto& finding : d.findings) findings.push_back(finding.text);
  list(findings);
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
