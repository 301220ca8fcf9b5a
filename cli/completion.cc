// seqto completion: what bash, zsh and fish read, made from the parser's own words and flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "word_tree.h"

namespace seqto::cli {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// In single quotes, for any of the shells.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", R"('\'')") + "'"; }

std::string last_part(const Word& word) {
  const size_t at = word.path.rfind(' ');
  return at == std::string::npos ? word.path : word.path.substr(at + 1);
}

// Flags of the program stand behind every word too; -h is each word's own.
std::vector<Flag> flags_at(const Word& word, const Word& root) {
  std::vector<Flag> flags = word.flags;
  if (!word.path.empty())
    for (const Flag& flag : root.flags)
      if (flag.names.back() != "--help" && flag.names.back() != "--version") flags.push_back(flag);
  return flags;
}

std::vector<std::string> names(const std::vector<Flag>& flags) {
  std::vector<std::string> all;
  for (const Flag& flag : flags) all.insert(all.end(), flag.names.begin(), flag.names.end());
  return all;
}

std::vector<std::string> names(const std::vector<Word>& words) {
  std::vector<std::string> all;
  for (const Word& word : words) all.push_back(last_part(word));
  return all;
}

// "' hub'|' hub list'": the paths below the program as patterns of a case.
std::string patterns(const Word& root) {
  std::vector<std::string> all;
  for (const Word* word : all_words(root))
    if (!word->path.empty()) all.push_back("' " + word->path + "'");
  return fmt::format("{}", fmt::join(all, "|"));
}

std::string key(const Word& word) { return word.path.empty() ? "''" : "' " + word.path + "'"; }

// --- bash
// -------------------------------------------------------------------------------------------------------------

std::string bash_words(const Word& root) {
  std::string text;
  for (const Word* word : all_words(root)) {
    std::vector<std::string> values = names(word->words);
    for (const Flag& positional : word->positionals)
      values.insert(values.end(), positional.choices.begin(), positional.choices.end());
    text += fmt::format("    {}) words='{}' flags='{}' ;;\n", key(*word), fmt::join(values, " "),
                        fmt::join(names(flags_at(*word, root)), " "));
  }
  return text;
}

std::string bash_values(const Word& root) {
  std::string text;
  for (const Word* word : all_words(root)) {
    for (const Flag& flag : word->flags) {
      if (flag.type.empty()) continue;
      std::vector<std::string> keys;
      for (const auto& name : flag.names) keys.push_back(fmt::format("' {} {}'", word->path, name));
      text += fmt::format("    {}) kind={} values='{}' ;;\n", fmt::join(keys, "|"), flag.takes_file ? "file" : "value",
                          fmt::join(flag.choices, " "));
    }
  }
  return text;
}

std::string bash_completion(const Word& root) {
  std::string text = R"(# bash completion for seqto; made by `seqto completion bash`.
_seqto() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} word='' words='' flags='' kind='' values='' i
  # bash splits --flag=value into three.
  if [[ $cur == '=' ]]; then cur=''
  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$word ${COMP_WORDS[i]}" in
      @patterns@) word="$word ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$word" in
@words@  esac
  case "$word $prev" in
@values@  esac
  COMPREPLY=()
  if [[ -n $values ]]; then
    # Of several values with commas between, the last.
    local before=''
    [[ $cur == *,* ]] && before=${cur%,*},
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$values" -- "${cur##*,}")
  fi
  if [[ -z $kind && $cur == -* ]]; then mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
  elif [[ -z $kind && -n $words ]]; then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  elif [[ -z $kind || $kind == file ]]; then
    local files
    mapfile -t files < <(compgen -f -- "$cur")
    COMPREPLY+=("${files[@]}")
    compopt -o filenames 2>/dev/null
  fi
  return 0
}
complete -F _seqto seqto
)";
  text = replaced(text, "@patterns@", patterns(root));
  text = replaced(text, "@words@", bash_words(root));
  return replaced(text, "@values@", bash_values(root));
}

// --- zsh
// --------------------------------------------------------------------------------------------------------------

std::string zsh_escaped(const std::string& text) {
  std::string all = replaced(text, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) all = replaced(all, special, std::string("\\") + special);
  return all;
}

// ":what:how" of a value.
std::string zsh_value(const Flag& flag) {
  if (flag.type.empty()) return "";
  const std::string what = ":" + zsh_escaped(flag.names.back().substr(flag.names.back().find_first_not_of('-')));
  if (flag.choices.empty()) return what + (flag.takes_file ? ":_files" : ":");
  const std::string choices = fmt::format("{}", fmt::join(flag.choices, " "));
  if (flag.delimiter) return fmt::format("{}:_values -s {} value {}", what, flag.delimiter, choices);
  return fmt::format("{}:({})", what, choices);
}

std::string zsh_flags(const Word& word, const Word& root) {
  std::string text;
  for (const Flag& flag : flags_at(word, root)) {
    for (const auto& name : flag.names) {
      const bool equals = !flag.type.empty() && name.starts_with("--");
      text += " \\\n        " + quoted(fmt::format("{}{}{}[{}]{}", flag.repeated && !flag.type.empty() ? "*" : "", name,
                                                   equals ? "=" : "", zsh_escaped(flag.description), zsh_value(flag)));
    }
  }
  return text;
}

std::string zsh_completion(const Word& root) {
  std::string cases;
  for (const Word* word : all_words(root)) {
    cases += fmt::format("    ({})\n", key(*word));
    if (!word->words.empty()) {
      cases += "      verbs=(\n";
      for (const Word& below : word->words)
        cases +=
            "        " + quoted(fmt::format("{}:{}", last_part(below), replaced(below.description, ":", "\\:"))) + "\n";
      cases += "      )\n";
    }
    std::string rest = "'*:file:_files'";
    if (!word->words.empty()) rest = "'1: :->verbs'";
    else if (!word->positionals.empty() && !word->positionals.front().choices.empty())
      rest = fmt::format("'1:name:({})'", fmt::join(word->positionals.front().choices, " "));
    cases += fmt::format("      _arguments -S :{} \\\n        {} && ret=0 ;;\n", zsh_flags(*word, root), rest);
  }
  const std::string text = R"(#compdef seqto
# zsh completion for seqto; made by `seqto completion zsh`.
_seqto() {
  local word='' i at=1 ret=1 state state_descr line
  local -a verbs
  typeset -A opt_args
  for ((i = 2; i < CURRENT; i++)); do
    case "$word $words[i]" in
      (@patterns@) word="$word $words[i]"; at=$i ;;
    esac
  done
  if ((at > 1)); then
    words=("${(@)words[at,-1]}")
    ((CURRENT -= at - 1))
  fi
  case "$word" in
@cases@  esac
  if [[ $state == verbs ]]; then _describe -t commands 'command' verbs && ret=0; fi
  return ret
}
if [[ $funcstack[1] == _seqto ]]; then _seqto "$@"; else compdef _seqto seqto; fi
)";
  return replaced(replaced(text, "@patterns@", patterns(root)), "@cases@", cases);
}

// --- fish
// -------------------------------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_flag(const Flag& flag, const std::string& at) {
  std::string text = "complete -c seqto -n " + at;
  for (const auto& name : flag.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!flag.type.empty()) text += flag.takes_file ? " -r -F" : " -x";
  if (!flag.choices.empty()) text += fmt::format(" -a '{}'", fmt::join(flag.choices, " "));
  return text + " -d " + fish_quoted(flag.description) + "\n";
}

std::string fish_completion(const Word& root) {
  std::string text = R"(# fish completion for seqto; made by `seqto completion fish`.
function __seqto_at
    set -l word
    for part in (commandline -opc)[2..-1]
        switch "$word $part"
            case @patterns@
                set word "$word $part"
        end
    end
    test "$word" = "$argv[1]"
end
complete -c seqto -f
)";
  text = replaced(text, "@patterns@", replaced(patterns(root), "|", " "));
  for (const Word* word : all_words(root)) {
    const std::string at = "\"__seqto_at " + key(*word) + "\"";
    for (const Word& below : word->words)
      text +=
          fmt::format("complete -c seqto -n {} -a {} -d {}\n", at, last_part(below), fish_quoted(below.description));
    if (word->words.empty() && !word->positionals.empty()) {
      const auto& choices = word->positionals.front().choices;
      text += fmt::format("complete -c seqto -n {} {}\n", at,
                          choices.empty() ? "-F" : fmt::format("-a '{}'", fmt::join(choices, " ")));
    }
    for (const Flag& flag : flags_at(*word, root)) text += fish_flag(flag, at);
  }
  return text;
}

}  // namespace

void add_completion(Command app) {
  auto shell = std::make_shared<std::string>();
  const Command word =
      app.add_subcommand("completion", "Completion for a shell, to stdout (docs/reference/install.md)");
  word.add_option("shell", *shell, "bash, zsh or fish").required().check_one_of({"bash", "zsh", "fish"});
  word.callback([shell, app] {
    const Word root = describe(app);
    fmt::print("{}", *shell == "bash"  ? bash_completion(root)
                     : *shell == "zsh" ? zsh_completion(root)
                                       : fish_completion(root));
  });
}

}  // namespace seqto::cli
