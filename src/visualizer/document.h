// A short report of headings, sentences and tables, written as terminal text, Markdown or one HTML page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace seqto::internal {

struct DocumentTable {
  std::string title;  // may be empty
  std::vector<std::string> columns;
  size_t text_columns = 1;  // the first so many stand to the left, figures to the right
  std::vector<std::vector<std::string>> rows;
};

struct Document {
  std::string title, verdict;
  bool good = true;
  std::vector<std::string> findings;  // one sentence each, below the verdict
  std::vector<DocumentTable> tables;
  std::vector<std::string> facts;  // "reference: model.onnx"
  std::string html, scripts;       // of the page alone, as they are: before the tables, and at the end
};

std::string to_text(const Document& document);  // for a terminal
std::string to_markdown(const Document& document);
std::string to_html(const Document& document);  // needs nothing from elsewhere

// By the file's ending: .html, .md, or .json, which gets `json`. Throws Error{kUsage} for any other.
void write_document(const Document& document, const std::string& json, const std::filesystem::path& file);

}  // namespace seqto::internal
