"""Opens the reports of seqto_visualizer_test in a browser: plots drawn, no errors, no foreign script run."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

SKIPPED = 77
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000",
]


PLOTS = ("front", "latency", "layer_losses", "sensitivity", "exclusion")


def browse(browser, page, *more):
    """The document after its scripts have run, and what the browser said."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", *more, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def unguarded(page):
    """Where scripts of the test's own may run."""
    text, policies = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    assert policies == 1, policies
    return text


def check_guarded(browser, page):
    """What someone gets into the page runs nowhere, and the page works all the same."""
    owned = page.with_name("owned.html")
    script = """<script>document.body.id = 'owned';</script><img src="data:," onerror="document.body.id = 'owned'"></body>"""
    owned.write_text(script.join(page.read_text().rsplit("</body>", 1)))
    dom, said = browse(browser, owned, "--dump-dom")
    assert "Content Security Policy" in said and 'id="owned"' not in dom.replace(script, ""), said
    assert marks(dom, "front")[0] > 20
    owned.write_text(script.join(unguarded(page).rsplit("</body>", 1)))
    assert '<body id="owned">' in browse(browser, owned, "--dump-dom")[0], "the test would not see it"


def marks(dom, plot):
    """Numbers of shapes and texts inside the plot's own <svg>."""
    found = re.search(rf'<div[^>]*id="{plot}".*?(<svg.*?</svg>)', dom, re.S)
    assert found, f"no svg in #{plot}"
    return len(re.findall(r"<(?:path|circle|rect|polyline)\b", found[1])), len(re.findall(r"<text\b", found[1]))


def check_page(browser, page, at_least):
    dom, said = browse(browser, page, "--dump-dom")
    errors = [line for line in said.splitlines() if "CONSOLE" in line]
    assert not errors, errors
    for plot in PLOTS:
        if plot != "front" and f'<div class="plot" id="{plot}"' not in page.read_text():
            continue  # the study says nothing of it
        shapes, texts = marks(dom, plot)
        print(f"{page.parent.name}: #{plot}: {shapes} shapes, {texts} texts")
        assert shapes >= at_least and texts >= 1, (plot, shapes, texts)
    if page.parent.name.endswith("devices"):
        assert marks(dom, "devices")[0] > 20
    title = re.search(r"<title>(.*?)</title>", dom)[1]
    assert title.endswith(" · seqto"), title
    assert "<script>alert" not in dom
    check_access(dom)


# What a reader does: point at a mark of each plot, sort by size twice.
TOUCH = """<script>
['front', 'sensitivity', 'exclusion'].forEach(function (name) {
  var chart = echarts.getInstanceByDom(document.getElementById(name));
  for (var i = 0; i < 8; ++i) {
    for (var k = 0; k < chart.getOption().series.length; ++k) {
      chart.dispatchAction({type: 'showTip', seriesIndex: k, dataIndex: i});
    }
  }
  chart.dispatchAction({type: 'showTip', seriesIndex: 1, dataIndex: 2});
});
// Redrawing takes the tooltips away: a copy stays.
['front', 'sensitivity', 'exclusion'].forEach(function (name) {
  var copy = document.getElementById(name).cloneNode(true);
  copy.id = 'touched_' + name;
  document.body.appendChild(copy);
});
document.getElementById('log').click();
var sizes = document.querySelectorAll('#trials th button')[3];
sizes.click(); sizes.click();
</script></body>"""


def check_touched(browser, page):
    touched = page.with_name("touched.html")
    touched.write_text(TOUCH.join(unguarded(page).rsplit("</body>", 1)))
    dom, said = browse(browser, touched, "--dump-dom")
    assert "CONSOLE" not in said, said
    for plot in ("front", "exclusion"):
        assert "size</th>" in dom.split(f'id="touched_{plot}"')[1].split('id="touched_')[0], plot
    assert "<b>&lt;script&gt;alert(\"x\")&lt;/script&gt;&amp;'_out</b>" in dom, "tooltip of the hostile tensor"
    rows = re.findall(r"<code>(\w+)</code>", re.search(r'id="trials".*?</table>', dom, re.S)[0])
    assert rows[-1] == "full" and rows[:2] == ["0000000000000015", "float"], rows  # what has no size counts as most
    assert "(log; 0 at the lower end)" in dom


SORT = """<script>
document.querySelectorAll('#trials th button')[0].click();
document.body.setAttribute('data-names', Array.prototype.map.call(document.querySelectorAll('#trials tbody tr'), function (row) {
  return parseInt(row.cells[0].textContent, 10) || 0;
}).filter(Boolean).join(' '));
</script></body>"""


def check_sorted(browser, page):
    touched = page.with_name("sorted.html")
    touched.write_text(SORT.join(unguarded(page).rsplit("</body>", 1)))
    dom, _ = browse(browser, touched, "--dump-dom")
    names = [int(name) for name in re.search(r'data-names="([^"]*)"', dom)[1].split()]
    assert names == sorted(names) and names[-1] >= 10, f"candidates by their numbers: {names}"


# What a reader does with the layers: choose another candidate, go on to the next layer, save its picture.
LAYERS = """<script>
var saved = [];
// The browser encodes when it is idle, by its own clock: a busy machine would end the page's time before. Here: at once.
HTMLCanvasElement.prototype.toBlob = function (done, type) {
  var url = this.toDataURL(type);
  done(new Blob([url], {type: url.slice(5, url.indexOf(';'))}));
};
URL.createObjectURL = function (blob) { saved.push(blob.type); return '#'; };
var candidate = document.getElementById('model-candidate');
candidate.value = '0000000000000013';
candidate.dispatchEvent(new Event('change'));
document.getElementById('layer-after').click();
document.querySelectorAll('#layer-plots .savers button').forEach(function (button) { button.click(); });
document.getElementById('graph').scrollIntoView();
function press(key) {
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: key, bubbles: true}));
}
setTimeout(function () {  // the graph is there: from the chosen layer on, and open the third after it
  document.querySelector('#graph [tabindex="0"]').focus();
  var zoom = new KeyboardEvent('keydown', {key: '+', ctrlKey: true, bubbles: true, cancelable: true});
  document.body.setAttribute('data-left', document.activeElement.dispatchEvent(zoom));
  ['ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowDown', 'ArrowDown', '+', 'Enter'].forEach(press);
  document.body.setAttribute('data-opened', document.activeElement.textContent);
  document.querySelector('#graph [data-node="2"]').dispatchEvent(new MouseEvent('click', {bubbles: true}));
  document.body.setAttribute('data-clicked', document.getElementById('layer-name').textContent);
  document.querySelectorAll('#graph + .savers button').forEach(function (button) { button.click(); });
  document.getElementById('layer-before').click();
}, 1500);
setTimeout(function () { document.body.setAttribute('data-saved', saved.join(' ')); }, 3000);
</script></body>"""


def check_layers(browser, page):
    looked = page.with_name("looked.html")
    looked.write_text(LAYERS.join(unguarded(page).rsplit("</body>", 1)))
    dom, said = browse(browser, looked, "--dump-dom", "--window-size=1280,3000")
    assert "CONSOLE" not in said, said
    view = dom.split('id="layer"', 1)[1].split("</section>")[0]
    assert re.search(r'id="layer-name"[^>]*>conv1<', view), view[:600]
    assert re.search(r'id="layer-scheme"[^>]*>float32: is excluded<', view)
    rows = re.findall(r"<code>([^<]*)</code></td><td>(\w+)</td><td>([^<]*)</td>", view)
    assert rows == [("conv0_out", "input", "-1.5 to 2.5"), ("conv1.weight", "weight", "-1.5 to 2.5"),
                    ("conv1_out", "output", "-1.5 to 2.5")], rows
    assert len(re.findall(r"<svg", view)) == 3
    assert "Histogram of weight conv1.weight, from -1.5 to 2.5" in view
    types = re.search(r'data-saved="([^"]*)"', dom)[1].split()
    assert sorted(types) == ["image/png"] * 4 + ["image/svg+xml"] * 4, types
    assert 'data-opened="conv4"' in dom, re.search(r'data-opened="[^"]*"', dom)
    assert 'data-left="true"' in dom, "Ctrl-+ is the browser's"
    assert 'data-clicked="&lt;script&gt;' in dom or 'data-clicked="<script>' in dom
    graph = dom.split('id="graph"', 1)[1].split("</svg>")[0]
    assert len(re.findall(r"data-node=", graph)) == 10, "eight layers, a Shape, the input"
    assert len(re.findall(r"marker-end=", graph)) == 10, "a chain and one branch"
    assert re.search(r'aria-label="Conv · float32 conv1"[^>]*aria-current="true"', graph), "conv1 is chosen"
    legend = dom.split('id="graph-legend"', 1)[1].split("</ul>")[0]
    assert "float32: 2<" in legend and "int8: 7<" in legend, legend


# What a reader does with the page: dark colours, a point of the front, and a row of the table.
LOOK = """<script>
var front = echarts.getInstanceByDom(document.getElementById('front'));
var item = front.getOption().series.map(function (series) {
  return series.data.filter(function (item) { return item.point && item.point.id === '0000000000000013'; })[0];
}).filter(Boolean)[0];
front.trigger('click', {data: item});
document.body.setAttribute('data-pointed', document.querySelector('#trials tr.pointed').getAttribute('data-id'));
document.querySelector('#trials tr[data-id="full"]').dispatchEvent(new Event('mouseenter'));
document.body.setAttribute('data-tip', document.querySelector('#front > div:last-child').textContent);
['beforeprint', 'afterprint'].forEach(function (when) { window.dispatchEvent(new Event(when)); });
setTimeout(function () {
  var colours = document.getElementById('colours');
  colours.value = 'dark';
  colours.dispatchEvent(new Event('change'));
}, 500);
</script></body>"""


def check_looks(browser, page):
    looked = page.with_name("dark.html")
    looked.write_text(LOOK.join(unguarded(page).rsplit("</body>", 1)))
    dom, said = browse(browser, looked, "--dump-dom")
    assert "CONSOLE" not in said, said
    assert 'data-pointed="0000000000000013"' in dom
    assert "data-node=" in dom.split('id="graph"', 1)[1].split("</svg>")[0], "paper shows the graph too"
    point = re.search(r'id="point".*?</div>', dom, re.S)[0]
    assert "3</b>" in point and ">0000000000000013<" in point and ">0.031<" in point, "with McNemar's p"
    assert re.search(r'data-tip="int8', dom), re.search(r'data-tip="[^"]*"', dom)
    assert re.search(r'id="layer-scheme"[^>]*>int8: ', dom), "the layers are those of the point that was chosen"
    assert 'data-theme="dark"' in dom and 'fill="#e8edf2"' in dom.split('id="front"')[1].split("</svg>")[0]


def check_access(dom):
    """Headings in order, a name for everything that can be operated, for every plot a label, for every table heads."""
    body = re.sub(r"<script.*?</script>|<svg.*?</svg>", "", dom.split("<body", 1)[1], flags=re.S)
    levels = [int(level) for level in re.findall(r"<h(\d)", body)]
    assert levels[0] == 1 and levels.count(1) == 1, levels
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels
    for plot in re.findall(r'<div[^>]*class="plot"[^>]*>', body):
        assert 'role="img"' in plot and re.search(r'aria-label="[^"]+"', plot), plot
    for attributes, words in re.findall(r"<button([^>]*)>(.*?)</button>", body, re.S):
        assert words.strip() or "aria-label" in attributes, attributes
    labelled = set(re.findall(r'<label for="([^"]+)"', body)) | set(
        re.findall(r'<label[^>]*>(?:(?!</label>).)*?<(?:select|input)[^>]*id="([^"]+)"', body, re.S))
    for tag in re.findall(r"<(?:select|input)\b[^>]*>", body):
        name = re.search(r'id="([^"]+)"', tag)
        assert "aria-label" in tag or (name and name[1] in labelled), tag
    for table in re.findall(r"<table.*?</table>", body, re.S):
        assert "<th" in table, table[:200]


def check_comparison(browser, page):
    touched = page.with_name("touched.html")
    touched.write_text("""<script>
var chart = echarts.getInstanceByDom(document.getElementById('fronts'));
chart.dispatchAction({type: 'showTip', seriesIndex: 3, dataIndex: 1});
</script></body>""".join(unguarded(page).rsplit("</body>", 1)))
    dom, said = browse(browser, touched, "--dump-dom")
    assert "CONSOLE" not in said, said
    shapes, texts = marks(dom, "fronts")
    assert shapes > 30 and texts > 10, (shapes, texts)
    assert ">second: <b>" in dom, "the tooltip tells the study"


# What a reader sees first, and where the page is after a click on each point of the front.
FIRST = """<script>
window.addEventListener('load', function () {
  var told = document.body, front = document.getElementById('front'), chart = echarts.getInstanceByDom(front), most = 0;
  function tell(name, value) { told.setAttribute('data-' + name, value); }
  tell('width', innerWidth);
  tell('overflow', document.documentElement.scrollWidth - innerWidth);
  tell('answer-ends', document.getElementById('answer').getBoundingClientRect().bottom / innerHeight);
  tell('front-begins', front.getBoundingClientRect().top / innerHeight);
  window.scrollTo(0, front.getBoundingClientRect().top);
  chart.getOption().series.forEach(function (series) {
    series.data.forEach(function (item) {
      if (!item.point) return;
      var before = scrollY;
      chart.trigger('click', {data: item});
      most = Math.max(most, Math.abs(scrollY - before) / innerHeight);
    });
  });
  tell('scrolled', most);
  var shown = document.querySelectorAll('#trials thead th'), seen = 0;
  shown.forEach(function (head) { seen += head.offsetWidth > 0; });
  document.getElementById('all-columns').click();
  tell('columns', seen + ' of ' + shown.length);
  tell('overflow-all', document.documentElement.scrollWidth - innerWidth);
  setTimeout(function () { parent.postMessage(document.documentElement.outerHTML, '*'); }, 500);
});
</script></body>"""

# No window of the browser's is narrower than 500 pixels; a frame is.
FRAME = """<!doctype html><iframe src="{page}" width="{width}" height="900" style="border: 0"></iframe><pre></pre><script>
addEventListener('message', function (told) {{ document.querySelector('pre').textContent = told.data; }});
</script>"""


def check_first_screen(browser, folder, width):
    page = folder / f"first_{width}.html"
    page.write_text(FIRST.join(unguarded(folder / "report.html").rsplit("</body>", 1)))
    frame = folder / f"frame_{width}.html"
    frame.write_text(FRAME.format(page=page.name, width=width))
    dom, said = browse(browser, frame, "--dump-dom", "--window-size=1400,1000")
    assert "CONSOLE" not in said, said
    dom = html.unescape(re.search("<pre>(.*?)</pre>", dom, re.S)[1])
    sentence = html.unescape(re.search(r'<p id="answer">(.*?)</p>', dom)[1])
    assert sentence == json.loads((folder / "summary.json").read_text())["answer"], sentence

    def told(name):
        return float(re.search(rf'data-{name}="([^"]*)"', dom)[1])

    assert told("width") == width, told("width")
    assert told("overflow") <= 0 and told("overflow-all") <= 0, (told("overflow"), told("overflow-all"))
    assert told("answer-ends") < 0.5 and told("front-begins") < 1, (told("answer-ends"), told("front-begins"))
    assert told("scrolled") < 1, told("scrolled")
    seen, of = map(int, re.search(r'data-columns="(\d+) of (\d+)"', dom).groups())
    assert seen <= 7 < of, (seen, of)
    check_ticks(dom)


def check_ticks(dom):
    """Figures at the axes of the front: none long, all sizes within the models' own."""
    svg = re.search(r'<div[^>]*id="front".*?(<svg.*?</svg>)', dom, re.S)[1]
    texts = re.findall(r"<text\b[^>]*>([^<]*)</text>", svg)
    figures = [text for text in texts if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", text)]
    assert figures and all(len(figure) <= 6 and "e" not in figure for figure in figures), texts


def check_overview(browser, page):
    """However long the names, every figure is in sight at 1100 pixels."""
    measured = page.with_name("measured.html")
    script = """<script>var box = document.querySelector('.wide');
document.body.setAttribute('data-hidden', box.scrollWidth - box.clientWidth);</script></body>"""
    measured.write_text(script.join(unguarded(page).rsplit("</body>", 1)))
    dom, said = browse(browser, measured, "--dump-dom", "--window-size=1100,900")
    assert "CONSOLE" not in said, said
    assert 'data-hidden="0"' in dom, re.search(r'data-hidden="[^"]*"', dom)


def check_svgs(folder):
    for plot in PLOTS:
        if not (folder / "plots" / f"{plot}.svg").exists():
            assert plot != "front"
            continue
        root = xml.parse(folder / "plots" / f"{plot}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def main():
    binary = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", "build")) / "bin" / "seqto_visualizer_test"
    if not binary.exists():
        print(f"skipped: {binary} is not built")
        return SKIPPED
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([binary, "--gtest_filter=Report.*"], env={**os.environ, "SEQTO_REPORT_OUT": out}, check=True,
                       stdout=subprocess.DEVNULL)
        reports = sorted(pathlib.Path(out).glob("seqto_report_*"))
        assert len(reports) >= 6, reports
        for report in reports:
            check_svgs(report)
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            print("skipped: the SVG files are well-formed, but there is no chromium to open the pages")
            return SKIPPED
        for report in reports:
            check_page(browser, report / "report.html", 10 if report.name.endswith(("small", "decades", "many")) else 0)
        check_guarded(browser, pathlib.Path(out) / "seqto_report_small" / "report.html")
        check_touched(browser, pathlib.Path(out) / "seqto_report_small" / "report.html")
        check_sorted(browser, pathlib.Path(out) / "seqto_report_many" / "report.html")
        check_overview(browser, pathlib.Path(out) / "seqto_overview" / "index.html")
        for width in (1280, 400):
            check_first_screen(browser, pathlib.Path(out) / "seqto_report_small", width)
        ruined = pathlib.Path(out) / "seqto_report_ruined" / "report.html"
        dom = browse(browser, ruined, "--dump-dom")[0]
        check_ticks(dom)
        assert "Measured, as candidate 3: kl 0.100, 4.46 MB" in dom, "what-if tells what was measured of the same plan"
        check_looks(browser, pathlib.Path(out) / "seqto_report_small" / "report.html")
        check_comparison(browser, pathlib.Path(out) / "seqto_comparison" / "comparison.html")
        check_layers(browser, pathlib.Path(out) / "seqto_report_small" / "report.html")
        if pictures := os.environ.get("SEQTO_SCREENSHOTS"):
            page = pathlib.Path(out) / "seqto_report_small" / "report.html"
            for width, height in ((1280, 3600), (500, 6000)):
                for name in ("report", "dark"):
                    browse(browser, page.with_name(f"{name}.html"), f"--screenshot={pictures}/{name}_{width}.png",
                           f"--window-size={width},{height}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
