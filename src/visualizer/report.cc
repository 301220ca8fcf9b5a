#include "seqto/report.h"

#include "base/files.h"
#include "visualizer/page.h"
#include "visualizer/report_data.h"
#include "visualizer/svg_engine.h"

namespace seqto {

void write_report(const Summary& summary, const std::filesystem::path& dir) {
  const auto data = internal::report_data_json(summary);
  std::vector<std::string> plots{"front", "sensitivity", "exclusion"};
  if (!summary.elsewhere.empty()) plots.emplace_back("devices");
  const auto svgs = internal::draw_svgs(data, plots);
  for (size_t i = 0; i < plots.size(); ++i) write_file_atomic(dir / "plots" / (plots[i] + ".svg"), svgs[i]);
  write_file_atomic(dir / "report.html", internal::render_page(summary, data));
}

}  // namespace seqto
