#!/usr/bin/env python3
"""The README's picture, docs/front.svg: size against loss of a study's front, drawn from its summary.json.

    seqto tune examples/digits/model.onnx --data examples/digits/digits.npz --objectives kl,size -o out/front
    tools/front_svg.py out/front/summary.json > docs/front.svg

The program's own plots/front.svg has one set of colours; this picture follows the reader's, light or dark."""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 330, 76, 18, 40, 56
STYLE = """text{font:13px system-ui,sans-serif;fill:#444}.t{font-size:15px;font-weight:600;fill:#222}
.g{stroke:#ddd}.l{fill:none;stroke:#2a6fbb;stroke-width:2}.p{fill:#2a6fbb}.s{fill:#d1495b}.r{fill:#777}.f{stroke:#777;stroke-dasharray:5 4}
@media(prefers-color-scheme:dark){text{fill:#bbb}.t{fill:#eee}.g{stroke:#3a3a3a}.l{stroke:#6aa9ee}.p{fill:#6aa9ee}.s{fill:#ff8a80}.r{fill:#999}.f{stroke:#999}}"""


def point(entry):
    return entry["size_bytes"] / 1e3, entry["losses"]["kl"]


def picture(summary):
    front = [entry for entry in summary["front"] if entry["losses"]["kl"] > 0]
    published, float_kb = point(summary["fully_quantized"]), point(summary["baseline"])[0]
    shown = [point(entry) for entry in front] + [published]
    low = math.floor(math.log10(min(kl for _, kl in shown)))
    high = math.ceil(math.log10(max(kl for _, kl in shown)))
    last = 20 * math.ceil(float_kb / 20)

    def at(kb, kl):
        x = LEFT + (WIDTH - LEFT - RIGHT) * kb / last
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(kl) - low) / (high - low)
        return f"{x:.1f}", f"{y:.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
           "<title>Front of examples/digits: size of the file against loss</title>", f"<style>{STYLE}</style>",
           f'<text class="t" x="{LEFT}" y="22">examples/digits: {len(front)} measured files that no other file beats</text>']
    for power in range(low, high + 1):
        y = at(0, 10.0 ** power)[1]
        out.append(f'<path class="g" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
                   f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">1e{power}</text>')
    for kb in range(0, last + 1, 20):
        out.append(f'<text x="{at(kb, 10.0 ** low)[0]}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{kb}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">size of the file, kB</text>'
               f'<text transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
               "KL against float (0: equal)</text>")
    x = at(float_kb, 1)[0]
    out.append(f'<path class="f" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/><text x="{float(x) - 6:.1f}" y="{TOP + 14}" '
               f'text-anchor="end">float, {float_kb:.0f} kB, KL 0</text>')
    line = sorted(point(entry) for entry in front)
    out.append('<polyline class="l" points="' + " ".join(",".join(at(*p)) for p in line) + '"/>')
    for entry in front:
        chosen = entry["id"] == summary["selected"]
        x, y = at(*point(entry))
        out.append(f'<circle class="{"s" if chosen else "p"}" cx="{x}" cy="{y}" r="{6 if chosen else 4}"/>')
        if chosen:
            out.append(f'<text x="{float(x) - 10:.1f}" y="{float(y) + 4:.1f}" text-anchor="end">selected, {point(entry)[0]:.0f} kB</text>')
    x, y = at(*published)
    out.append(f'<rect class="r" x="{float(x) - 5:.1f}" y="{float(y) - 5:.1f}" width="10" height="10"/>'
               f'<text x="{float(x) + 10:.1f}" y="{float(y) + 4:.1f}">usual int8, {published[0]:.0f} kB</text></svg>')
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(picture(json.load(file)), end="")
