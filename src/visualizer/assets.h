// What the HTML report is made of beside ECharts; cmake/echarts.cmake puts the files of this folder into the program.
#pragma once

#include <string_view>

namespace seqto::internal {

std::string_view plots_js();       // plots.js: the ECharts option objects of the plots
std::string_view page_js();        // page.js: draws them in a browser, sorts tables
std::string_view layer_view_js();  // layer_view.js: one layer's tensors, values and scheme
std::string_view graph_view_js();  // graph_view.js: the model as a graph
std::string_view dagre_js();       // the dagre library as published, minified: places for the graph's nodes
std::string_view what_if_js();     // what_if.js: schemes to choose, figures that are expected of them
std::string_view report_css();     // report.css

}  // namespace seqto::internal
