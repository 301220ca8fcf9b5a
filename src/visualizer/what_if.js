// What if a group had another scheme? Figures of single groups, added up; the plan to take along.
(function () {
  'use strict';
  var data = page.data, known = data.what_if;
  var at = function (id) { return document.getElementById('whatif-' + id); };
  var start = at('start'), body = at('groups').tBodies[0], selects = [];

  function figure(value) { return value === 0 ? '0' : value.toPrecision(3).replace(/e-0?/, 'e-'); }
  function bytes(value) {  // as format_bytes() writes them
    var units = ['B', 'kB', 'MB', 'GB', 'TB'], unit = 0;
    while (Math.abs(value) >= (unit ? 999.995 : 1000) && unit < 4) {
      value /= 1000;
      ++unit;
    }
    return (unit ? value.toFixed(2) : String(Math.round(value))) + ' ' + units[unit];
  }
  function time(ns) { return Math.abs(ns) >= 1e6 ? (ns / 1e6).toFixed(2) + ' ms' : (ns / 1e3).toFixed(1) + ' \u00b5s'; }
  function chosen(g) { return known.groups[g].choices[selects[g].value]; }

  function update() {
    var loss = 0, saved = 0, ns = 0, changed = 0;
    known.groups.forEach(function (group, g) {
      var choice = chosen(g), cells = body.rows[g].cells;
      loss += choice.loss || 0;
      saved += choice.bytes_saved;
      ns += choice.ns_saved;
      changed += selects[g].value !== '0';
      cells[2].textContent = figure(choice.loss || 0);
      cells[3].textContent = bytes(choice.bytes_saved);
      cells[4].textContent = known.latency_ns ? time(choice.ns_saved) : '\u2013';
    });
    var told = measuredAs(loss, ns);
    at('figures').textContent = 'Expected: ' + known.loss + ' ' + figure(loss) + ', ' + bytes(known.size_bytes - saved) +
      (known.latency_ns ? ', ' + time(known.latency_ns - ns) + ' a sample' : '') + '; ' + changed + ' of ' +
      known.groups.length + ' groups quantized.' + told;
  }

  // Of a plan that is a candidate's, what was measured of it; and that the two differ, where they do.
  function measuredAs(loss, ns) {
    var same = data.points.filter(function (point) {
      var plan = (known.plans || {})[point.id];
      return plan && plan.every(function (choice, g) { return String(choice) === selects[g].value; });
    })[0];
    if (!same) return '';
    var expected = known.latency_ns - ns, off = known.latency_ns && same.latency > 0 && Math.abs(same.latency / expected - 1) > 0.1;
    return ' Measured, as candidate ' + plots.pointName(same) + ': ' + known.loss + ' ' +
      figure(same.losses[known.loss] === undefined ? same.loss : same.losses[known.loss]) + ', ' + same.size_text +
      (same.latency > 0 ? ', ' + same.latency_text + ' a sample' : '') + '.' +
      (off ? ' The expected time is ' + Math.abs(Math.round(100 * (expected / same.latency - 1))) + ' % too ' +
             (expected > same.latency ? 'long' : 'short') + ': go by what was measured.' : '');
  }

  function begin() {
    var plan = (known.plans || {})[start.value];
    selects.forEach(function (select, g) { select.value = String(plan ? plan[g] : 0); });
    update();
  }

  function plan() {
    var schemes = {};
    known.groups.forEach(function (group, g) {
      var layers = chosen(g).layers;
      Object.keys(layers).forEach(function (layer) { schemes[layer] = layers[layer]; });
    });
    return JSON.stringify({schema_version: 1, schemes: schemes}, null, 2) + '\n';
  }

  function option(select, value, text) {
    var made = document.createElement('option');
    made.value = value;
    made.textContent = text;
    select.appendChild(made);
  }

  option(start, '', 'float');
  data.points.forEach(function (point) {
    if (!(known.plans || {})[point.id]) return;
    option(start, point.id, plots.pointName(point) + ', ' + point.size_text + (point.selected ? ', selected' : ''));
    if (point.selected) start.value = point.id;
  });
  known.groups.forEach(function (group, g) {
    var row = body.insertRow(), name = document.createElement('code'), select = document.createElement('select');
    name.textContent = group.layers[0];
    name.title = group.layers.join(', ');
    row.insertCell().appendChild(name);
    select.setAttribute('aria-label', 'scheme of ' + group.layers[0]);
    group.choices.forEach(function (choice, c) { option(select, String(c), choice.scheme); });
    select.addEventListener('change', update);
    selects.push(select);
    row.insertCell().appendChild(select);
    row.insertCell();
    row.insertCell();
    row.insertCell();
  });
  start.addEventListener('change', begin);
  at('save').addEventListener('click', function () {
    page.download('plan.json', new Blob([plan()], {type: 'application/json'}));
  });
  document.getElementById('whatif').hidden = false;
  begin();
})();
