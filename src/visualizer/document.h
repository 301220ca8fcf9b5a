// A short report of headings, sentences and tables, written as terminal text, Markdown or one HTML page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "seqto/report.h"

namespace seqto::internal {

struct DocumentTable {
  std::string title;  // may be empty
  std::vector<TableColumn> columns;
  std::vector<TableRow> rows;
};

struct Finding {
  std::string text;
  std::optional<Colour> colour = {};  // on a terminal
};

struct Document {
  std::string title, verdict;
  bool good = true;
  bool judges = true;             // the verdict passes or fails something; else it only sums up
  std::vector<Finding> findings;  // one sentence each, below the verdict
  std::vector<DocumentTable> tables;
  std::vector<std::string> facts;  // "reference: model.onnx"
  std::string html, scripts;       // of the page alone, as they are: before the tables, and at the end
};

// For a terminal. The verdict and the verdicts of tables are in colours where the style has them.
std::string to_text(const Document& document, const TextStyle& style = {});
std::string to_markdown(const Document& document);
std::string to_html(const Document& document);  // needs nothing from elsewhere

// By the file's ending: .html, .md, or .json, which gets `json`. Throws Error{kUsage} for any other.
void write_document(const Document& document, const std::string& json, const std::filesystem::path& file);

}  // namespace seqto::internal
