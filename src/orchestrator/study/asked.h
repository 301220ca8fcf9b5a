// Room: orchestrator/study. The step that a study is in: DIR/asked.jsonl, its proposals, and DIR/told.jsonl, results
// that came before their turn.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/file_lock.h"
#include "seqto/ask.h"

namespace seqto::internal {

// Held by who asks or tells; others wait for it.
FileLock lock_asked(const std::filesystem::path& dir, const Env& env);

// The proposals, numbered, of the step that begins with the next trial.
void write_asked(const std::filesystem::path& dir, std::span<const Proposal> proposals);
// Those of them that the study has no trial of, in order; none where the step is of another state of the study.
std::vector<Proposal> unanswered(const std::filesystem::path& dir, const Study& study);
void remove_asked(const std::filesystem::path& dir);

// Whether the trial is of that proposal and of no other.
bool answers(const Trial& trial, const Proposal& proposal);

// Appends what was told and whose turn it is.
void take_told(const std::filesystem::path& dir, Study& study);
// The study of the folder, to append to, with that.
Study study_told(const std::filesystem::path& dir);
// Of the unanswered, those that no result waits for.
std::vector<Proposal> missing(const std::filesystem::path& dir, const Study& study);

}  // namespace seqto::internal
