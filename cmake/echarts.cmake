# Texts inside the program: ECharts, dagre, and what the HTML report is made of. Their functions are declared in
# src/visualizer/echarts_js.h and src/visualizer/assets.h.
add_library(seqto_echarts STATIC)

seqto_embed(seqto_echarts echarts_js "${SEQTO_DEPS}/echarts/echarts.min.js")
seqto_embed(seqto_echarts dagre_js "${SEQTO_DEPS}/dagre/dagre.min.js")
seqto_embed(seqto_echarts plots_js "${CMAKE_SOURCE_DIR}/src/visualizer/plots.js")
seqto_embed(seqto_echarts page_js "${CMAKE_SOURCE_DIR}/src/visualizer/page.js")
seqto_embed(seqto_echarts layer_view_js "${CMAKE_SOURCE_DIR}/src/visualizer/layer_view.js")
seqto_embed(seqto_echarts graph_view_js "${CMAKE_SOURCE_DIR}/src/visualizer/graph_view.js")
seqto_embed(seqto_echarts what_if_js "${CMAKE_SOURCE_DIR}/src/visualizer/what_if.js")
seqto_embed(seqto_echarts report_css "${CMAKE_SOURCE_DIR}/src/visualizer/report.css")
seqto_link_room(visualizer PRIVATE seqto_echarts)
