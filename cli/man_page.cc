// seqto man: the manual page, made from the parser's own words and flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "help_text.h"

namespace seqto::cli {
namespace {

// roff takes a backslash, a hyphen and a dot or quote at the start of a line for itself. Long lists of values may
// break.
std::string escaped(const std::string& text) {
  std::string all;
  for (char c : text) {
    if (c == '\\') all += "\\e";
    else if (c == '-') all += "\\-";
    else if (c == '|') all += "|\\:";
    else if (c == '\n') all += ' ';
    else all += c;
  }
  return all.starts_with('.') || all.starts_with('\'') ? "\\&" + all : all;
}

std::string entry(const Flag& flag) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(shown_name(flag)), escaped(shown_text(flag)));
}

std::string synopsis(const Word& word) {
  std::string text = "\\fBseqto " + escaped(word.path) + "\\fR";
  for (const Flag& positional : word.positionals) {
    const std::string name = "\\fI" + escaped(positional.names.front()) + "\\fR" + (positional.repeated ? " ..." : "");
    text += positional.required ? " " + name : " [" + name + "]";
  }
  for (const Flag& flag : word.flags)
    if (flag.required) text += fmt::format(" \\fB{}\\fR", escaped(shown_name(flag)));
  return text + " [options]\n";
}

// Flags that several words take are described once, behind all words.
std::string section(const Word& word, const SharedFlags& shared) {
  std::string text = fmt::format(".SS {}\n{}\n.PP\n{}", escaped(word.path), escaped(word.description), synopsis(word));
  std::vector<Flag> common;
  for (const Flag& positional : word.positionals) text += entry(positional);
  for (const Flag& flag : word.flags) {
    if (shared.holds(flag)) common.push_back(flag);
    else text += entry(flag);
  }
  std::vector<std::string> headings = headings_of(common);
  std::erase(headings, "Options");
  if (!headings.empty()) text += fmt::format(".PP\nShared flags: {}.\n", fmt::join(headings, ", "));
  return text;
}

constexpr const char* kTail = R"(.SH EXIT STATUS
.TP
0
ok
.TP
1
internal error
.TP
2
usage
.TP
3
invalid input: model, data or configuration
.TP
4
runtime, device or memory not available
.TP
5
gate not met
.TP
130
interrupted; what is finished is saved
.SH ENVIRONMENT
.TP
.B SEQTO_ORT_LIBRARY
ONNX Runtime's library, libonnxruntime.so
.TP
.B SEQTO_TVM_PYTHON
a Python that can import tvm and onnx
.TP
.B SEQTO_TVM_WORKER
the program seqto\-tvm
.TP
.B COLUMNS
width of tables
.TP
.B NO_COLOR
set to anything: no colours
)";

std::string man_page(const Word& root) {
  // Adjusted to the left: long lists of values cannot be spread over a line.
  std::string text = fmt::format(
      ".TH SEQTO 1 \"\" \"seqto {}\" \"User Commands\"\n.ad l\n.SH "
      "NAME\nseqto \\- {}\n.SH SYNOPSIS\n.B "
      "seqto\n\\fIcommand\\fR "
      "[options]\n.SH DESCRIPTION\n{}\nEvery command takes the options below; "
      "\\fBseqto\\fR \\fIcommand\\fR \\fB\\-\\-help\\fR lists its own.\n",
      SEQTO_VERSION, "finds which layers of an ONNX model to quantize, and how", escaped(root.description));
  text += ".SH OPTIONS\n";
  for (const Flag& flag : root.flags) text += entry(flag);
  text += ".SH COMMANDS\n";
  const SharedFlags shared = shared_flags(root);
  for (const Word* word : all_words(root))
    if (!word->path.empty() && word->words.empty()) text += section(*word, shared);
  text += ".SH SHARED FLAGS\n";
  for (const std::string& heading : headings_of(shared.flags)) {
    text += fmt::format(".SS {}\n", escaped(heading));
    for (const Flag& flag : shared.flags)
      if (subject_of(flag) == heading) text += entry(flag);
  }
  return text + kTail;
}

}  // namespace

void add_man(Command app) {
  const Command word = app.add_subcommand("man", "The manual page, to stdout: `seqto man | man -l -`");
  word.callback([app] { fmt::print("{}", man_page(describe(app))); });
}

}  // namespace seqto::cli
