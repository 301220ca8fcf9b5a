#include "metric_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "seqto/task.h"

namespace seqto::cli {

void add_metric_flags(Command any, MetricOptions& options) {
  const Command goal = any.under("Goal"), word = goal.in_detail();
  goal.add_option("--metric", options.metrics, "Task metric, as accuracy (docs/reference/metrics.md)")
      .one_value_each()
      .type_name("NAME[=FILE]");
  word.add_option("--metric-command", options.commands,
                  "Task metric of your own: a command that gets two .npz, the original's outputs and the candidate's, "
                  "and prints a number; max or min says which is better; may be repeated")
      .one_value_each()
      .type_name("NAME:max|min:COMMAND");
  word.add_option("--metric-timeout", options.timeout_seconds, "Seconds for one run of such a command (0: no limit)")
      .check_not_negative()
      .capture_default_str();
  word.add_option("--metric-resamples", options.command_resamples,
                  "Run such a command so many times more on resamples of the samples, for an interval (0: none)")
      .check_not_negative()
      .capture_default_str();
}

void add_task_flags(Command any, MetricOptions& options) {
  std::vector<std::string> names;
  for (const Task& task : tasks()) names.emplace_back(task.name);
  const Command goal = any.under("Goal");
  goal.add_option("--task", options.task, "What the model is for (found from its outputs)")
      .type_name(fmt::format("{}", fmt::join(names, "|")));
  goal.in_detail()
      .add_option("--pooling", options.pooling, "Task embed: what of the positions is the embedding (found, else mean)")
      .type_name("mean|first|last|whole");
}

}  // namespace seqto::cli
