#include "orchestrator/study/study_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace seqto {
namespace {

namespace fs = std::filesystem;

TEST(RemoveStudy, TakesWhatItListsAndNothingElse) {
  const fs::path dir = fs::temp_directory_path() / "seqto_study_files_test";
  fs::remove_all(dir);
  for (const char* folder : {"models", "plans", "own_corrections"}) fs::create_directories(dir / folder);
  const auto write = [&](const char* name, const char* text) { std::ofstream(dir / name) << text; };
  write("study.jsonl",
        "{\"study\":1,\"header\":{}}\n{\"trial\":{\"id\":\"float\"}}\n{\"trial\":{\"id\":\"ab12\"}}\n"
        "{\"trial\":{\"id\":\"../../outside\"}}\n{\"trial\":{\"id\":");  // torn
  for (const char* name : {"models/float.onnx", "models/ab12.onnx", "models/ab12.onnx.data", "models/selected.onnx",
                           "models/mine.onnx", "plans/float.json", "plans/ranges-1.json", "plans/rewritten-1.onnx",
                           "plans/notes.json", "own_corrections/ab12.npz", "models/tokenizer.json", "corrections.npz",
                           "summary.json", "report.html", "mine.html"})
    write(name, "x");
  write("plans/ab12.json",
        R"({"recipe": {"ranges": {"": {"file": "ranges-1.json"}}, "corrections": [{"file": "../mine.html"}],
               "rewritten": {"file": "rewritten-1.onnx"}}})");
  internal::remove_study(dir);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) left.insert(fs::relative(entry.path(), dir).string());
  EXPECT_EQ(left, (std::set<std::string>{"models/mine.onnx", "plans/notes.json", "mine.html"}));
  internal::remove_study(dir);  // nothing is listed any more
  fs::remove_all(dir);
}

}  // namespace
}  // namespace seqto
