// Wing: study. The files that a study leaves behind.
#pragma once

#include <filesystem>

namespace seqto::internal {

// Removes DIR/study.jsonl and the models, plans and corrections of the candidates that it lists, so that a study may
// begin anew. Whatever else lies in DIR stays.
void remove_study(const std::filesystem::path& dir);

}  // namespace seqto::internal
