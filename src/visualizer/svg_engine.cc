#include "visualizer/svg_engine.h"

#include <duktape.h>

#include <memory>

#include "seqto/error.h"
#include "visualizer/assets.h"
#include "visualizer/echarts_js.h"

namespace seqto::internal {
namespace {

// What ECharts expects of its surroundings. Nothing moves in a drawn plot, so timers never fire.
constexpr std::string_view kSurroundings = R"js(
var self = this;
function setTimeout() { return 0; }
function clearTimeout() {}
var setInterval = setTimeout, clearInterval = clearTimeout;
var console = {log: clearTimeout, warn: clearTimeout, error: clearTimeout};
)js";

constexpr std::string_view kDraw = R"js(
function draw(name, data) {
  var chart = echarts.init(null, null, {renderer: 'svg', ssr: true, width: 960, height: 540});
  var option = plots[name](JSON.parse(data), {theme: plots.light, title: true});
  option.animation = false;
  chart.setOption(option);
  var svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
)js";

using Engine = std::unique_ptr<duk_context, decltype(&duk_destroy_heap)>;

std::string_view top(duk_context* context) {
  duk_size_t size = 0;
  const char* text = duk_safe_to_lstring(context, -1, &size);
  return {text, size};
}

void check(duk_context* context, duk_int_t outcome, std::string_view what) {
  if (outcome == DUK_EXEC_SUCCESS) return;
  throw Error(Code::kInternal, "[report] the plots' script failed in " + std::string(what) + ": " +
                                   std::string(top(context)) + "; expected an SVG; please report this study");
}

void load(duk_context* context, std::string_view what, std::string_view script) {
  check(context, duk_peval_lstring_noresult(context, script.data(), script.size()), what);
}

}  // namespace

std::vector<std::string> draw_svgs(const std::string& data_json, const std::vector<std::string>& plots) {
  const Engine engine(duk_create_heap_default(), duk_destroy_heap);
  if (!engine) throw Error(Code::kInternal, "[report] no memory for the plots' script; expected some MB; free memory");
  auto* context = engine.get();
  load(context, "its surroundings", kSurroundings);
  load(context, "ECharts", echarts_js());
  load(context, "plots.js", plots_js());
  load(context, "draw()", kDraw);

  std::vector<std::string> svgs;
  for (const auto& plot : plots) {
    duk_get_global_string(context, "draw");
    duk_push_lstring(context, plot.data(), plot.size());
    duk_push_lstring(context, data_json.data(), data_json.size());
    check(context, duk_pcall(context, 2), plot);
    svgs.push_back(xml_text(top(context)));
    duk_pop(context);
  }
  return svgs;
}

std::string xml_text(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  // 16 bits of a three-byte sequence at i, 0 where there is none.
  const auto unit = [&](size_t i) {
    if ((byte(i) & 0xF0U) != 0xE0U) return 0U;
    return (byte(i) & 0x0FU) << 12U | (byte(i + 1) & 0x3FU) << 6U | (byte(i + 2) & 0x3FU);
  };
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const unsigned high = unit(i);
    const unsigned low = unit(i + 3);
    if (high >= 0xD800 && high < 0xDC00 && low >= 0xDC00 && low < 0xE000) {
      const unsigned point = 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
      for (const unsigned part : {0xF0U | point >> 18U, 0x80U | (point >> 12U & 0x3FU), 0x80U | (point >> 6U & 0x3FU),
                                  0x80U | (point & 0x3FU)}) {
        out += static_cast<char>(part);
      }
      i += 6;
    } else if ((high >= 0xD800 && high < 0xE000) || high >= 0xFFFE) {
      out += kReplacement;
      i += 3;
    } else if (byte(i) < 0x20 && text[i] != '\n' && text[i] != '\t' && text[i] != '\r') {
      out += kReplacement;
      ++i;
    } else {
      out += text[i++];
    }
  }
  return out;
}

}  // namespace seqto::internal
