// Draws the plots of the page, follows its width and colours, and sorts its tables.
(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var names = ['front', 'sensitivity', 'exclusion'].filter(function (name) { return document.getElementById(name); });
  var night = window.matchMedia('(prefers-color-scheme: dark)');
  var charts = {};
  var log = plots.wantsLog(data);
  var printing = false;

  function draw() {
    names.forEach(function (name) {
      var box = document.getElementById(name);
      if (!charts[name]) charts[name] = echarts.init(box, null, {renderer: 'svg'});
      var option = plots[name](data, {theme: night.matches && !printing ? plots.dark : plots.light,
                                      narrow: box.clientWidth < 560, log: log});
      option.animation = false;
      charts[name].resize();
      charts[name].setOption(option, true);
    });
  }

  var toggle = document.getElementById('log');
  toggle.checked = log;
  toggle.addEventListener('change', function () { log = toggle.checked; draw(); });

  var waiting;
  window.addEventListener('resize', function () { clearTimeout(waiting); waiting = setTimeout(draw, 100); });
  night.addEventListener('change', draw);
  // Paper is white.
  window.addEventListener('beforeprint', function () { printing = true; draw(); });
  window.addEventListener('afterprint', function () { printing = false; draw(); });

  function key(row, column) {
    var cell = row.cells[column], value = cell.getAttribute('data-value');
    return value === null ? cell.textContent : value === '' ? Infinity : Number(value);
  }
  Array.prototype.forEach.call(document.querySelectorAll('table.sortable'), function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      head.firstElementChild.addEventListener('click', function () {
        var down = head.getAttribute('aria-sort') === 'ascending';
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (other) { other.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        var rows = Array.prototype.slice.call(table.tBodies[0].rows);
        rows.sort(function (a, b) {
          var x = key(a, column), y = key(b, column);
          return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });
  draw();
})();
