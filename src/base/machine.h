// Room: base. Which machine this is.
#pragma once

#include <string>

namespace seqto {

std::string processor_name();  // "AMD EPYC 7B13"; empty where the system does not tell

}  // namespace seqto
