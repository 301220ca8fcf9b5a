#include "data/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/files.h"
#include "base/json.h"
#include "base/run_command.h"
#include "seqto/env.h"
#include "seqto/error.h"

namespace seqto::internal {

std::string_view tokenize_py();  // the script, embedded

namespace {

namespace fs = std::filesystem;

Tokens tokens_of(std::string_view line) {
  Tokens tokens;
  const char *at = line.data(), *end = at + line.size();
  while (at < end) {
    int64_t token = 0;
    const auto [stop, error] = std::from_chars(at, end, token);
    if (error != std::errc()) break;
    tokens.push_back(token);
    at = stop + (stop < end);
  }
  return tokens;
}

std::string python() {
  const char* variable = std::getenv("SEQTO_PYTHON");
  return variable && *variable ? variable : "python3";
}

Finished run_python(const std::vector<std::string>& words) {
  std::vector<std::string> command{python()};
  command.insert(command.end(), words.begin(), words.end());
  constexpr double kSeconds = 3600;
  try {
    return run_command(command, kSeconds, plain_env(), "data");
  } catch (const Error& error) {
    if (error.code() != Code::kUnavailable) throw;
    throw Error(
        Code::kUnavailable,
        command[0] == "python3"
            ? fmt::format("{}; install it, or name a Python with SEQTO_PYTHON", error.what())
            : fmt::format("{}; SEQTO_PYTHON names {}; correct it, or unset it for python3", error.what(), command[0]));
  }
}

// What the script writes of `input`.
std::string run_script(const char* what, const std::string& tokenizer, const std::string& input,
                       const std::string& subject) {
  const TemporaryFolder work;
  write_file_atomic(work.path / "in", input);
  write_file_atomic(work.path / "tokenize.py", tokenize_py());
  const Finished finished =
      run_python({"-B", (work.path / "tokenize.py").string(), what, fs::absolute(tokenizer).string(),
                  (work.path / "in").string(), (work.path / "out").string()});
  if (!finished.good) {
    std::string why = last_line(finished.errors);
    if (why.starts_with("error: ")) why = why.substr(7);
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: {}", subject, why.empty() ? finished.how : why));
  }
  return read_file(work.path / "out");
}

}  // namespace

Tokenized tokenized(const fs::path& data, std::span<const fs::path> files, const std::string& tokenizer) {
  std::string list;
  for (const fs::path& file : files) list += fs::absolute(file).string() + "\n";
  const std::string text = run_script("encode", tokenizer, list, data.string() + ": the text was not tokenized");
  Tokenized result;
  for (size_t begin = 0, number = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (number == 0) result.lines = line == "lines";
    else if (line.starts_with("begin")) result.begin = tokens_of(line.substr(std::min<size_t>(6, line.size())));
    else if (line != "-") result.texts.push_back(tokens_of(line));
  }
  return result;
}

std::vector<std::string> texts_of(std::span<const Tokens> ids, const std::string& tokenizer) {
  std::string lines;
  for (const Tokens& text : ids) lines += fmt::format("{}\n", fmt::join(text, " "));
  return parse_json(run_script("decode", tokenizer, lines, "token ids were not made text"))
      .get<std::vector<std::string>>();
}

}  // namespace seqto::internal
