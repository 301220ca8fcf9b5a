// Room: base. Which machine this is.
#pragma once

#include <cstdint>
#include <string>

namespace seqto {

// Bytes that programs may still take before others have to give some back; 0 where the system does not tell.
int64_t available_memory();

std::string processor_name();  // "AMD EPYC 7B13"; empty where the system does not tell

}  // namespace seqto
