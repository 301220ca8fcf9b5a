// Draws the plots of the page, follows its width and colours, saves them, and sorts its tables.
var page = (function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var night = window.matchMedia('(prefers-color-scheme: dark)');
  var log = plots.wantsLog(data), printing = false, drawn = [], listeners = [];

  function all(selector, act) { Array.prototype.forEach.call(document.querySelectorAll(selector), act); }
  function theme() {
    var chosen = document.documentElement.getAttribute('data-theme');
    return (chosen ? chosen === 'dark' : night.matches) && !printing ? plots.dark : plots.light;
  }
  function make(plot, how) {
    how.log = log;
    var option = plot.make(how);
    option.animation = false;
    option.aria = {enabled: true, label: {enabled: false}};
    return option;
  }
  function draw(plot) {
    if (!plot.box.clientWidth) return;  // folded away
    if (!plot.chart) plot.chart = echarts.init(plot.box, null, {renderer: 'svg'});
    plot.chart.dispatchAction({type: 'hideTip'});  // ECharts would fill it again when it is gone
    plot.chart.resize();
    plot.chart.setOption(make(plot, {theme: theme(), narrow: plot.box.clientWidth < 560}), true);
  }
  function drawAll() {
    drawn.forEach(draw);
    listeners.forEach(function (listener) { listener(); });
  }

  function download(name, blob) {
    var link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }
  // A picture that stands alone: with its title, in the colours that the page has now.
  function save(plot, type) {
    var svg = type === 'svg', away = document.createElement('div');
    var chart = echarts.init(svg ? null : away, null,
                             {renderer: svg ? 'svg' : 'canvas', ssr: svg, width: 960, height: 540});
    chart.setOption(make(plot, {theme: theme(), title: true}));
    if (svg) {
      download(plot.name + '.svg', new Blob([chart.renderToSVGString()], {type: 'image/svg+xml'}));
    } else {
      chart.renderToCanvas({pixelRatio: 2}).toBlob(function (blob) { download(plot.name + '.png', blob); });
    }
    chart.dispose();
  }

  function button(words, label, act) {
    var made = document.createElement('button');
    made.textContent = words;
    made.setAttribute('aria-label', label);
    made.addEventListener('click', act);
    return made;
  }
  // Buttons that save a picture, behind its box.
  function savers(box, name, act) {
    var line = document.createElement('p');
    line.className = 'savers';
    ['svg', 'png'].forEach(function (type) {
      line.appendChild(button(type.toUpperCase(), 'Save ' + name + ' as ' + type.toUpperCase(), function () { act(type); }));
    });
    box.parentNode.insertBefore(line, box.nextSibling);
  }
  // A plot in a box of the page; `make` gives its ECharts option. Returns what draw() and remove() take.
  function add(box, name, make) {
    var plot = {box: box, name: name, make: make, chart: null};
    drawn.push(plot);
    savers(box, name, function (type) { save(plot, type); });
    draw(plot);
    return plot;
  }
  function remove(plot) {
    if (plot.chart) plot.chart.dispose();
    drawn.splice(drawn.indexOf(plot), 1);
  }

  var toggle = document.getElementById('log');
  toggle.checked = log;
  toggle.addEventListener('change', function () { log = toggle.checked; drawAll(); });
  var colours = document.getElementById('colours');
  colours.addEventListener('change', function () {
    if (colours.value) document.documentElement.setAttribute('data-theme', colours.value);
    else document.documentElement.removeAttribute('data-theme');
    drawAll();
  });
  colours.parentNode.hidden = false;

  var waiting;
  window.addEventListener('resize', function () { clearTimeout(waiting); waiting = setTimeout(drawAll, 100); });
  night.addEventListener('change', drawAll);
  // Paper is white.
  window.addEventListener('beforeprint', function () { printing = true; drawAll(); });
  window.addEventListener('afterprint', function () { printing = false; drawAll(); });

  function key(row, column) {
    var cell = row.cells[column], value = cell.getAttribute('data-value');
    return value === null ? cell.textContent : value === '' ? Infinity : Number(value);
  }
  all('table.sortable', function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      head.firstElementChild.addEventListener('click', function () {
        var down = head.getAttribute('aria-sort') === 'ascending';
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (other) { other.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        var rows = Array.prototype.slice.call(table.tBodies[0].rows);
        rows.sort(function (a, b) {
          var x = key(a, column), y = key(b, column);
          var order = typeof x === 'string' ? x.localeCompare(y, undefined, {numeric: true}) : x < y ? -1 : x > y ? 1 : 0;
          return order * (down ? -1 : 1);
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });

  var columns = document.getElementById('all-columns');
  if (columns) {
    columns.addEventListener('change', function () {
      document.getElementById('trials').classList.toggle('all', columns.checked);
    });
  }

  // A candidate's point and its row in the table show each other.
  var rows = {}, pointed = [], front;
  all('#trials tr[data-id]', function (row) {
    var id = row.getAttribute('data-id');
    rows['$' + id] = row;
    function point() {
      if (!front || !front.chart) return;
      front.chart.getOption().series.forEach(function (series, s) {
        (series.data || []).forEach(function (item, i) {
          if (item.point && item.point.id === id) front.chart.dispatchAction({type: 'showTip', seriesIndex: s, dataIndex: i});
        });
      });
    }
    row.addEventListener('mouseenter', point);
    row.addEventListener('focusin', point);
  });
  // All that is known of one candidate, for those who point at nothing.
  var choice = document.getElementById('point-choice');
  function showPoint(id) {
    data.points.forEach(function (p) {
      if (p.id !== id) return;
      choice.value = id;
      document.getElementById('point').innerHTML = p.size === undefined ? '' : plots.describe(p, data, true);
      if (p.failure) document.getElementById('point').textContent = p.failure;
    });
  }
  function choosePoint(id) {
    if (choice) {
      showPoint(id);
      // It is below the plot: what is out of sight comes up, no further.
      document.getElementById('one-point').scrollIntoView({block: 'nearest'});
    }
    all('#trials tr.pointed', function (row) { row.classList.remove('pointed'); });
    var row = rows['$' + id];
    if (row) row.classList.add('pointed');
    pointed.forEach(function (listener) { listener(id); });
  }

  if (choice && data.points.length) {
    var begin = data.points[0].id;
    data.points.forEach(function (p) {
      var option = document.createElement('option');
      option.value = p.id;
      option.textContent = plots.pointName(p) + (p.size_text ? ', ' + p.size_text : ', failed') + (p.selected ? ', selected' : '');
      choice.appendChild(option);
      if (p.selected) begin = p.id;
    });
    choice.addEventListener('change', function () { choosePoint(choice.value); });
    showPoint(begin);
    document.getElementById('one-point').hidden = false;
  }

  ['front', 'fronts', 'latency', 'layer_losses', 'devices', 'sensitivity', 'exclusion'].forEach(function (name) {
    var box = document.getElementById(name);
    if (!box) return;
    var plot = add(box, name, function (how) { return plots[name](data, how); });
    if ((name !== 'front' && name !== 'latency') || !plot.chart) return;
    if (name === 'front') front = plot;
    plot.chart.on('click', function (item) {
      if (item.data && item.data.point) choosePoint(item.data.point.id);
    });
  });
  // `onTheme(act)`: act is called when colours or widths have changed; `onPoint(act)`: with the id of a point that was
  // chosen in the front's plot.
  return {data: data, theme: theme, add: add, remove: remove, download: download, savers: savers, button: button,
          onTheme: function (act) { listeners.push(act); }, onPoint: function (act) { pointed.push(act); }};
})();
