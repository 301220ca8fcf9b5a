#include "seqto/report.h"

#include <algorithm>

#include "base/files.h"
#include "visualizer/page.h"
#include "visualizer/report_data.h"
#include "visualizer/svg_engine.h"

namespace seqto {

void write_report(const Summary& summary, const std::filesystem::path& dir, const ReportOptions& options) {
  const auto data = internal::report_data_json(summary);
  const std::vector<std::string> plots = options.plots ? internal::plot_names(summary) : std::vector<std::string>();
  const auto file = [&](const std::string& plot) { return dir / "plots" / (plot + ".svg"); };
  // Those of a study that was there before may say nothing of this one.
  for (const char* plot : {"front", "latency", "layer_losses", "sensitivity", "exclusion", "devices"})
    if (std::ranges::find(plots, plot) == plots.end()) std::filesystem::remove(file(plot));
  const auto svgs = plots.empty() ? std::vector<std::string>() : internal::draw_svgs(data, plots);
  for (size_t i = 0; i < plots.size(); ++i) write_file_atomic(file(plots[i]), svgs[i]);
  write_file_atomic(StudyFolder{dir}.report(), internal::render_page(summary, data));
}

}  // namespace seqto
