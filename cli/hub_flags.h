// Where the hub is, and models that may come from it: every word that reads a model has these.
#pragma once

#include <optional>
#include <string>

#include "commands.h"
#include "seqto/hub.h"

namespace seqto::cli {

constexpr const char* kModelHelp = "ONNX file, hub:NAME, or a study's DIR:3";

void add_hub_flags(Command word, HubOptions& options);

// DIR:3, where DIR is a study's folder; nothing for what is none.
struct StudyCandidate {
  std::string dir, id;
};
std::optional<StudyCandidate> candidate_of(const std::string& asked);
// The file that a model's name stands for: a candidate's where it is DIR:3, DIR:selected or DIR:<id> of a study,
// fetched where it is hub:NAME; "" stays.
std::string model_file(const std::string& asked, const HubOptions& hub, const Context& context);
// The same of a plan.
std::string plan_file(const std::string& asked);

}  // namespace seqto::cli
