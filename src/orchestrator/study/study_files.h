// Wing: study. The files of a study beside those of StudyFolder, and all that it leaves behind.
#pragma once

#include <filesystem>
#include <string>

namespace seqto::internal {

std::filesystem::path asked_file(const std::filesystem::path& dir);  // the proposals of its present step
std::filesystem::path told_file(const std::filesystem::path& dir);   // trials told before their turn
std::filesystem::path corrections_file(const std::filesystem::path& dir);
std::filesystem::path own_corrections_file(const std::filesystem::path& dir, const std::string& id);

// Whether there is a study to go on with: of an empty file, or one whose first line was never finished, nothing is.
bool is_begun(const std::filesystem::path& dir);

// Removes DIR/study.jsonl, the models, plans and corrections of the candidates that it lists, and what was drawn of
// them, so that a study may begin anew. Whatever else lies in DIR stays.
void remove_study(const std::filesystem::path& dir);

}  // namespace seqto::internal
