#include "seqto/report.h"

#include "base/files.h"
#include "visualizer/page.h"
#include "visualizer/report_data.h"
#include "visualizer/svg_engine.h"

namespace seqto {

void write_report(const Summary& summary, const std::filesystem::path& dir, const ReportOptions& options) {
  const auto data = internal::report_data_json(summary);
  std::vector<std::string> plots{"front", "sensitivity", "exclusion"};
  if (!summary.elsewhere.empty()) plots.emplace_back("devices");
  const auto file = [&](const std::string& plot) { return dir / "plots" / (plot + ".svg"); };
  if (options.plots) {
    const auto svgs = internal::draw_svgs(data, plots);
    for (size_t i = 0; i < plots.size(); ++i) write_file_atomic(file(plots[i]), svgs[i]);
  } else {
    for (const auto& plot : plots) std::filesystem::remove(file(plot));
  }
  write_file_atomic(dir / "report.html", internal::render_page(summary, data));
}

}  // namespace seqto
