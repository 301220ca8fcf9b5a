// seqto help and seqto version.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "help_text.h"
#include "print_json.h"
#include "seqto/error.h"

namespace seqto::cli {
namespace {

std::string last_part(const Word& word) { return word.path.substr(word.path.rfind(' ') + 1); }

void require_words(const Word& root, const std::vector<std::string>& names) {
  const Word* at = &root;
  for (const std::string& name : names) {
    const auto below = std::ranges::find(at->words, name, last_part);
    if (below == at->words.end()) {
      std::vector<std::string> known;
      for (const Word& word : at->words) known.push_back(last_part(word));
      throw Error(Code::kUsage, fmt::format("[help] '{}' found; a word that `seqto help` lists expected{}", name,
                                            did_you_mean(name, known)));
    }
    at = &*below;
  }
}

}  // namespace

void add_help(Command app) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto all = std::make_shared<bool>(false), markdown = std::make_shared<bool>(false);
  const Command word = app.add_subcommand("help", "All words, or one of them with its flags: `seqto help tune`");
  word.add_option("word", *names, "As tune, or hub list");
  word.add_flag("--all", *all, "Its flags in detail too");
  word.add_flag("--markdown", *markdown, "The reference of all words, docs/reference/cli.md");
  word.callback([=] {
    const Word root = describe(app);
    require_words(root, *names);
    fmt::print("{}", *markdown ? reference_page(root) : help_text(describe(app, *names), *all));
  });
}

void add_version(Command app, Context& context) {
  app.add_subcommand("version", "The version").callback([&context] {
    if (context.json) print_json(nlohmann::ordered_json{{"version", SEQTO_VERSION}});
    else fmt::print("seqto {}\n", SEQTO_VERSION);
  });
}

}  // namespace seqto::cli
