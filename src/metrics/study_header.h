// The first line of a study, and the comparison of two of them.
#pragma once

#include <string>
#include "base/json.h"

#include "seqto/metrics.h"

namespace seqto {

nlohmann::ordered_json header_to_json(const StudyHeader& header);
StudyHeader header_from_json(const nlohmann::ordered_json& json);

// "model_sha256 found a, expected b; ..." for every figure that differs; empty when it is the same study.
std::string differences(const StudyHeader& found, const StudyHeader& expected);

// The same for headers without differences: what results of a study name it by.
std::string study_id(const StudyHeader& header);

}  // namespace seqto
