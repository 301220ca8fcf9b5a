// Flags that ask for task metrics.
#pragma once

#include "commands.h"
#include "seqto/metrics.h"

namespace seqto::cli {

void add_metric_flags(Command word, MetricOptions& options);
void add_task_flags(Command word, MetricOptions& options);

}  // namespace seqto::cli
