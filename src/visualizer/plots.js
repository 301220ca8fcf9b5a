// The plots of the report as ECharts option objects, from the data that report_data.cc writes.
// Plain ES5: the page runs it in a browser, the SVG files are drawn by the same code in an embedded engine.
var plots = (function () {
  'use strict';

  var light = {text: '#1c2733', muted: '#5a6874', grid: '#e4e8ec', card: '#ffffff', trial: '#94a3b3', front: '#1769c2',
               top: '#d4570a', float: '#227a43', full: '#8a3aa8', second: '#b5432a', third: '#8a97a5',
               times: ['#0b6fa4', '#8cc7d9', '#f2a33a', '#b3261e']};
  var dark = {text: '#e8edf2', muted: '#a3b0bd', grid: '#313c47', card: '#1a222b', trial: '#6f7f8f', front: '#6db3ff',
              top: '#ffa454', float: '#6fd08c', full: '#d39bea', second: '#ff917a', third: '#75838f',
              times: ['#4aa8ff', '#a5dcf0', '#ffc06a', '#ff6a5c']};
  // [light, dark] of each scheme; what is coloured also tells its scheme in words.
  var schemes = {
    float32: ['#e3eef0', '#2b3a3f'], float16: ['#bfe3d0', '#1f5a41'], int8: ['#c5dcf7', '#1f4a7d'],
    int8_dynamic: ['#f9dfb8', '#6b4a12'], int8_weights: ['#dfd0f2', '#4f3a73'], int4_weights: ['#f4c9dd', '#742c52'],
    int8w_int16a: ['#d7e6a8', '#4c5a16']
  };
  function schemeColour(scheme, theme) {
    return (schemes[scheme] || ['#dddddd', '#555555'])[theme === dark ? 1 : 0];
  }
  // No quoted names: ECharts writes the font into an attribute as it is.
  var font = 'system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif';
  // Equal tensors give hundreds of dB; drawn as they are they would flatten all others.
  var MOST_DB = 120;

  function escape(text) {
    return String(text).replace(/[&<>"']/g, function (c) { return '&#' + c.charCodeAt(0) + ';'; });
  }

  function shorten(text, most) {
    return text.length <= most ? text : text.slice(0, 4) + '\u2026' + text.slice(text.length - (most - 5));
  }

  function figure(value) {
    if (typeof value !== 'number') return '\u2013';
    var short = +value.toPrecision(3);
    return short !== 0 && (Math.abs(short) < 1e-4 || Math.abs(short) >= 1e5) ? short.toExponential().replace('e+', 'e') :
                                                                               String(short);
  }
  function power(exponent) {
    return '10' + String(exponent).replace(/./g, function (c) {
      return c === '-' ? '\u207b' : '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079'.charAt(c);
    });
  }
  // What stands at an axis: "0.02", "3 \u00d7 10\u207b\u2074", never a row of noughts.
  function tick(value) {
    var size = Math.abs(value);
    if (value === 0 || (size >= 1e-3 && size < 1e5)) return String(+value.toPrecision(6));
    var parts = value.toExponential(2).split('e'), front = String(+parts[0]);
    return (front === '1' ? '' : front + ' \u00d7 ') + power(Number(parts[1]));
  }

  function measured(data) {
    return data.points.filter(function (p) { return typeof p.loss === 'number'; });
  }

  function pointName(p) {
    return p.name || p.id;
  }

  // The figures of a point as a table, all or those of a tooltip; ECharts takes HTML, so every text is escaped.
  function describe(p, data, all) {
    var rows = [];
    function row(name, value) {
      rows.push('<tr><th scope="row" style="padding-right:1em;opacity:.75;font-weight:400;text-align:left">' + escape(name) +
                '</th><td style="text-align:right">' +
                escape(value) + '</td></tr>');
    }
    function known(name, value) {
      var ends = (p.intervals || {})[name];
      row(name, figure(value) + (ends ? ' (' + figure(ends[0]) + ' to ' + figure(ends[1]) + ')' : ''));
    }
    var marks = (p.selected ? ' \u00b7 selected' : '') + (p.rank ? ' \u00b7 top ' + p.rank : '');
    if (all) row('id', p.id);
    row('size', p.size_text);
    if (all && p.kept_text) row('reduction kept', p.kept_text);
    row('latency', p.latency_text);
    if (p.decode_text) row('decode', p.decode_text);
    var losses = Object.keys(p.losses);
    losses.forEach(function (name) {
      if (all || name === data.loss || name === 'top1_disagreement') known(name, p.losses[name]);
    });
    if (losses.indexOf(data.loss) < 0) row(data.loss, figure(p.loss));
    if (all) Object.keys(p.metrics).forEach(function (name) { known(name, p.metrics[name]); });
    if (all && p.float_layers >= 0) row('left in float by the plan', p.float_layers);
    if (p.excluded) row('exclusion list', p.excluded);
    if (p.alike) {
      var other = data.points.filter(function (q) { return q.id === p.alike && q.study === p.study; })[0];
      row('not told apart from', other ? pointName(other) : p.alike);
    }
    if (all && p.mcnemar) row('as often right as float: McNemar\u2019s p', p.mcnemar);
    return '<b>' + escape(pointName(p)) + '</b>' + escape(marks) + '<table>' + rows.join('') + '</table>';
  }

  // What all of them share. `how`: {theme, title, narrow, log}.
  function frame(how, title) {
    var theme = how.theme;
    return {
      backgroundColor: how.title ? theme.card : 'transparent',
      textStyle: {fontFamily: font, color: theme.text},
      title: {show: !!how.title, text: title, left: 16, top: 10,
              textStyle: {color: theme.text, fontFamily: font, fontSize: 17, fontWeight: 600}},
      legend: {type: 'scroll', top: how.title ? 44 : 0, left: how.title ? 12 : 0, right: 8, itemGap: 16,
               itemWidth: 16, itemHeight: 12,
               pageTextStyle: {color: theme.muted}, pageIconColor: theme.muted,
               textStyle: {color: theme.text, fontFamily: font}},
      grid: {left: how.title ? 20 : 4, right: how.narrow ? 18 : 24, top: how.title ? 104 : 62, bottom: 34,
             containLabel: true},
      tooltip: {confine: true, backgroundColor: theme.card, borderColor: theme.grid,
                textStyle: {color: theme.text, fontFamily: font, fontSize: 13}}
    };
  }

  function axis(theme, more) {
    var it = {
      axisLine: {show: true, lineStyle: {color: theme.muted}}, axisTick: {show: true, lineStyle: {color: theme.muted}},
      axisLabel: {color: theme.muted, fontFamily: font, hideOverlap: true},
      splitLine: {show: true, lineStyle: {color: theme.grid}},
      nameTextStyle: {color: theme.muted, fontFamily: font}
    };
    Object.keys(more).forEach(function (key) {
      if (it[key] && !Array.isArray(more[key]) && typeof more[key] === 'object') {
        Object.keys(more[key]).forEach(function (inner) { it[key][inner] = more[key][inner]; });
      } else {
        it[key] = more[key];
      }
    });
    return it;
  }

  // The room beside the first point ends at 0: there are no sizes and times below.
  function notBelowZero(ends) { return ends.min < (ends.max - ends.min) / 4 ? 0 : null; }

  function below(name) { return {name: name, nameLocation: 'middle', nameGap: 30}; }

  function withName(theme, base, more) {
    Object.keys(more).forEach(function (key) { base[key] = more[key]; });
    return axis(theme, base);
  }

  function nothing(how, title, words) {
    var option = frame(how, title);
    option.graphic = {type: 'text', left: 'center', top: 'middle', silent: true,
                      style: {text: words, fill: how.theme.muted, font: '15px ' + font}};
    return option;
  }

  // A log axis where the front spans two decades and a linear one would show a flat line; not for a metric's drop, which
  // may be below 0.
  function wantsLog(data) {
    if (measured(data).some(function (p) { return p.loss < 0; })) return false;
    var losses = measured(data).filter(function (p) { return p.loss > 0 && !p.ruined && (p.front || p.kind === 'full'); })
                               .map(function (p) { return p.loss; });
    return losses.length > 2 && Math.max.apply(null, losses) > 100 * Math.min.apply(null, losses);
  }

  // On a logarithmic axis all of one kind.
  function logTick(least) {
    return least >= 1e-2 ? tick : function (value) { return value === 1 ? '1' : power(Math.round(Math.log(value) / Math.LN10)); };
  }
  // Ends of a linear axis and its step, at round figures.
  function round(low, high) {
    var step = Math.pow(10, Math.floor(Math.log((high - low) / 4 || 1) / Math.LN10));
    [1, 2, 5, 10].some(function (times) {
      if ((high - low) / (times * step) > 8) return false;
      step *= times;
      return true;
    });
    return {min: Math.floor(low / step + 1e-9) * step, max: Math.ceil(high / step - 1e-9) * step, interval: step};
  }

  // What an axis has to hold: the front and the models it is compared with. Others, a ruined point of the front and a
  // reference that is far worse than all of it stand at the axis's end.
  function limiting(points, log) {
    var best = points.filter(function (p) { return (p.front || p.selected || p.rank) && !p.ruined; });
    var losses = best.map(function (p) { return p.loss; });
    var worst = Math.max.apply(null, losses), span = Math.max(worst, worst - Math.min.apply(null, losses));
    var shown = best.concat(points.filter(function (p) {
      return p.kind !== 'trial' && best.length && p.loss <= span * (log ? 1000 : 5);
    }));
    return shown.length ? shown : points;
  }

  var LEAST_LOSS = 1e-9;  // on a logarithmic axis: ECharts rounds its ticks to ten decimals, and has no place for 0

  // The axis of a loss, and where a point stands on it and on that of sizes, or of what `across` gives.
  function lossScale(data, points, how, across) {
    var log = how.log === undefined ? wantsLog(data) : how.log;
    var positive = points.filter(function (p) { return p.loss > 0; }).map(function (p) { return p.loss; });
    log = log && positive.length > 0;
    var shown = limiting(points, log), losses = shown.map(function (p) { return p.loss; });
    var worst = Math.max.apply(null, losses), ends;
    // A logarithm has no place for a loss of 0: it is drawn at the lower end of the axis, and the axis says so.
    if (log) {
      var least = Math.max(LEAST_LOSS, Math.min.apply(null, positive));
      ends = {min: Math.pow(10, Math.floor(Math.log(least) / Math.LN10 - 0.3)),
              max: Math.pow(10, Math.ceil(Math.log(Math.max(worst, least)) / Math.LN10 + 0.05))};
    } else {
      var low = Math.min.apply(null, losses.concat(0));  // below 0: better than float
      ends = round(low, Math.max(worst * 1.04, -low / 4) || 1);
    }
    var beyond = points.filter(function (p) { return p.loss > ends.max; }).length;
    var words = [];
    if (log) words.push('log');
    var below = log ? points.filter(function (p) { return p.loss < ends.min; }) : [];
    var zero = below.every(function (p) { return p.loss <= 0; });
    if (below.length) words.push((zero ? '0' : 'what is below') + ' at the lower end');
    if (beyond) words.push(beyond + ' above, at the upper end');
    across = across || function (p) { return p.size / data.unit.bytes; };
    var named = {type: log ? 'log' : 'value', name: data.loss + (words.length ? '  (' + words.join('; ') + ')' : ''),
                 min: ends.min, max: ends.max, nameTextStyle: {align: 'left'}, axisLabel: {formatter: log ? logTick(ends.min) : tick}};
    if (ends.interval) named.interval = ends.interval;
    return {
      place: function (p) {
        return {value: [across(p), Math.min(ends.max, log ? Math.max(p.loss, ends.min) : p.loss)], point: p};
      },
      axis: axis(how.theme, named)
    };
  }

  // The axis below: as far as the front and the models it is compared with.
  function acrossAxis(theme, points, across, name) {
    var shown = points.filter(function (p) { return p.front || p.selected || p.rank || p.kind !== 'trial'; });
    var values = (shown.length ? shown : points).map(across), low = Math.min.apply(null, values), high = Math.max.apply(null, values);
    var room = (high - low) * 0.04 || high * 0.1 || 1;
    low = low - room < (high - low) / 4 ? 0 : low - room;
    var ends = round(low, high + room);
    return withName(theme, {type: 'value', min: ends.min, max: ends.max, interval: ends.interval, axisLabel: {formatter: tick}},
                    below(name));
  }

  function front(data, how) {
    var theme = how.theme, points = measured(data), title = data.model + ': ' + data.loss + ' against size';
    if (!points.length) return nothing(how, title, 'no measured candidates');
    var across = function (p) { return p.size / data.unit.bytes; };
    var sizes = acrossAxis(theme, points, across, 'size in ' + data.unit.name);
    var scale = lossScale(data, points, how, function (p) { return Math.min(sizes.max, Math.max(sizes.min, across(p))); });
    function only(test) { return points.filter(test).map(scale.place); }
    function scatter(name, color, symbol, size, items, label, position) {
      return {
        name: name, type: 'scatter', data: items, symbol: symbol, symbolSize: size, itemStyle: {color: color}, z: 5,
        cursor: 'default', labelLayout: {hideOverlap: true},
        label: {show: !!label, position: position, color: color, fontFamily: font, fontWeight: 600,
                formatter: label, textBorderColor: theme.card, textBorderWidth: 3}
      };
    }

    var aside = [18, -11];  // beside the step line, which leaves a point to the right and upwards

    var members = only(function (p) { return p.front; }), line = only(function (p) { return p.outline; });
    line.sort(function (a, b) { return a.value[0] - b.value[0]; });
    // With latency as an objective some of the front lie off the line of size and loss: its points tell by their colour.
    var unit = timeUnit(points);
    var timed = data.timed && members.some(function (m) { return m.point.latency > 0; });
    var others = only(function (p) { return !p.front && p.kind === 'trial'; });
    var series = [];
    if (others.length) {
      series.push(scatter('trials', theme.trial, 'circle', 7, others));
      series[0].itemStyle = {color: 'transparent', borderColor: theme.trial, borderWidth: 1.5};
      series[0].z = 2;
    }
    series.push({name: timed ? 'least ' + data.loss + ' at each size' : 'front', type: 'line', step: 'end', data: line,
                 symbol: timed ? 'none' : 'circle', symbolSize: 7, z: 3, cursor: 'default',
                 itemStyle: {color: theme.front}, lineStyle: {color: theme.front, width: timed ? 1.5 : 2}});
    if (timed) {
      members.forEach(function (m) { m.value.push(m.point.latency / unit.ns); });
      series.push(scatter('front', theme.front, 'circle', 11, members));
    }
    series.push(scatter('top three', theme.top, 'diamond', 15, only(function (p) { return p.rank > 0; }),
                        function (item) { return pointName(item.data.point); }, aside));
    if (timed) series[series.length - 1].itemStyle = {color: 'transparent', borderColor: theme.top, borderWidth: 2};
    var chosen = scatter('selected', theme.top, 'circle', 25, only(function (p) { return p.selected; }));
    chosen.itemStyle = {color: 'transparent', borderColor: theme.top, borderWidth: 2};
    chosen.z = 4;
    series.push(chosen);
    points.filter(function (p) { return p.kind === 'full'; }).forEach(function (p) {
      series.push(scatter(pointName(p), theme.full, 'rect', 11, [scale.place(p)], pointName(p), [16, -9]));
    });
    series.push(scatter('float', theme.float, 'triangle', 13, only(function (p) { return p.kind === 'float'; }), 'float',
                        how.narrow ? 'top' : [-32, -12]));

    var option = frame(how, title);
    option.tooltip.trigger = 'item';
    option.tooltip.formatter = function (item) { return item.data.point ? describe(item.data.point, data) : ''; };
    option.xAxis = sizes;
    option.yAxis = scale.axis;
    option.series = series;
    if (timed) {
      var times = members.map(function (m) { return m.value[2]; }).filter(function (t) { return t > 0; });
      option.visualMap = {
        type: 'continuous', dimension: 2, min: Math.min.apply(null, times), max: Math.max.apply(null, times),
        seriesIndex: series.map(function (s) { return s.name; }).indexOf('front'), calculable: false,
        orient: 'horizontal', right: how.title ? 20 : 4, top: how.title ? 70 : 26, itemWidth: 10, itemHeight: 110,
        text: [figure(Math.max.apply(null, times)) + ' ' + unit.name + ' a sample', figure(Math.min.apply(null, times))], textGap: 6,
        textStyle: {color: theme.muted, fontFamily: font}, inRange: {color: theme.times}
      };
      if (option.visualMap.min === option.visualMap.max) delete option.visualMap;
      else if (how.narrow) option.grid.top = 84;
    }
    return option;
  }

  // Latencies on an axis: in what unit, by the largest.
  function timeUnit(points) {
    var most = Math.max.apply(null, points.map(function (p) { return p.latency || 0; }));
    return most < 1e6 ? {name: '\u00b5s', ns: 1e3} : {name: 'ms', ns: 1e6};
  }

  // What was timed in turn: the front and the models it is compared with. The line: no other is better in both.
  function latency(data, how) {
    var theme = how.theme, title = data.model + ': ' + data.loss + ' against latency';
    var points = measured(data).filter(function (p) { return p.latency > 0 && (p.front || p.kind !== 'trial'); });
    if (!points.length) return nothing(how, title, 'no latencies');
    var unit = timeUnit(points), across = function (p) { return p.latency / unit.ns; };
    var times = acrossAxis(theme, points, across, 'latency in ' + unit.name + ' a sample');
    var scale = lossScale(data, points, how, across), least = Infinity, best = [];
    points.slice().sort(function (a, b) { return a.latency - b.latency || a.loss - b.loss; }).forEach(function (p) {
      if (p.loss >= least) return;
      least = p.loss;
      best.push(scale.place(p));
    });
    function marks(name, color, symbol, size, test, label) {
      return {name: name, type: 'scatter', data: points.filter(test).map(scale.place), symbol: symbol, symbolSize: size, z: 5,
              cursor: 'default', labelLayout: {hideOverlap: true}, itemStyle: {color: color},
              label: {show: !!label, position: 'top', color: color, fontFamily: font, fontWeight: 600,
                      formatter: function (item) { return pointName(item.data.point); }, textBorderColor: theme.card, textBorderWidth: 3}};
    }
    var spread = {name: 'p10 to p90', type: 'line', data: [], symbol: 'none', silent: true, z: 1,
                  lineStyle: {color: theme.trial, width: 1.5, opacity: 0.7}, itemStyle: {color: theme.trial}};
    points.forEach(function (p) {
      if (!p.latency_ends) return;
      var y = scale.place(p).value[1];
      p.latency_ends.forEach(function (ns) { spread.data.push([Math.min(times.max, Math.max(times.min, ns / unit.ns)), y]); });
      spread.data.push(['-', '-']);
    });
    var option = frame(how, title);
    option.tooltip.trigger = 'item';
    option.tooltip.formatter = function (item) { return item.data.point ? describe(item.data.point, data) : ''; };
    option.xAxis = times;
    option.yAxis = scale.axis;
    var ring = marks('selected', theme.top, 'circle', 25, function (p) { return p.selected; });
    ring.itemStyle = {color: 'transparent', borderColor: theme.top, borderWidth: 2};
    option.series = [
      spread,
      {name: 'least ' + data.loss + ' at each latency', type: 'line', step: 'end', data: best, symbol: 'none', z: 3,
       itemStyle: {color: theme.front}, lineStyle: {color: theme.front, width: 1.5}},
      marks('front', theme.front, 'circle', 9, function (p) { return p.front && !p.rank && p.kind === 'trial'; }),
      marks('top three', theme.top, 'diamond', 15, function (p) { return p.rank > 0 && p.kind === 'trial'; }, true), ring,
      marks('float', theme.float, 'triangle', 13, function (p) { return p.kind === 'float'; }, true)
    ];
    points.forEach(function (p) {
      if (p.kind === 'full') option.series.push(marks(pointName(p), theme.full, 'rect', 11, function (q) { return q === p; }, true));
    });
    return option;
  }

  // What each group of layers adds to the loss when it alone is quantized, in the first scheme that it can have.
  function layerLosses(data, how) {
    var theme = how.theme, known = data.what_if, title = data.model + ': ' + known.loss + ' of single groups of layers';
    var selected = data.points.filter(function (p) { return p.selected; })[0];
    var chosen = selected && (known.plans || {})[selected.id], first = {};
    var bars = known.groups.map(function (group, g) {
      var alone = group.choices[1] || group.choices[0], more = group.layers.length - 1;
      first[alone.scheme] = true;
      return {value: alone.loss || 0, place: g, scheme: chosen ? group.choices[chosen[g]].scheme : 'float32', group: group,
              name: shorten(group.layers[0], how.narrow ? 14 : 32) + (more ? ' + ' + more : '')};
    });
    bars.sort(function (a, b) { return b.value - a.value || a.place - b.place; });
    bars = bars.slice(0, 20).reverse();
    var kinds = bars.map(function (b) { return b.scheme; }).filter(function (s, i, all) { return all.indexOf(s) === i; }).sort();
    var option = frame(how, title);
    option.tooltip.trigger = 'item';
    option.tooltip.formatter = function (item) {
      var lines = item.data.bar.group.choices.slice(1).map(function (choice) {
        return escape(choice.scheme) + ': ' + figure(choice.loss || 0);
      });
      return '<b>' + escape(shorten(item.data.bar.group.layers.join(', '), 80)) + '</b><br>alone in ' + lines.join('<br>');
    };
    option.grid.top = how.title ? 84 : 34;
    option.grid.right = 44;
    option.yAxis = axis(theme, {type: 'category', data: bars.map(function (b) { return b.name; }), splitLine: {show: false},
                                axisTick: {show: false}, axisLabel: {interval: 0, hideOverlap: false, fontSize: 11}});
    option.xAxis = withName(theme, {type: 'value', axisLabel: {formatter: tick}, splitNumber: how.narrow ? 2 : 5},
                            below(known.loss + ', alone in ' + Object.keys(first).join(' or ')));
    option.series = kinds.map(function (scheme) {
      return {name: scheme, type: 'bar', stack: 'loss', barCategoryGap: '25%',
              itemStyle: {color: schemeColour(scheme, theme), borderColor: theme.muted, borderWidth: 1},
              data: bars.map(function (b) { return b.scheme === scheme ? {value: b.value, bar: b} : '-'; })};
    });
    return option;
  }

  // The fronts of several studies; points know theirs by its position in data.studies.
  function fronts(data, how) {
    return beside(data, how, data.loss + ' against size', true, 'size in ' + data.unit.name,
                  function (p) { return p.size / data.unit.bytes; });
  }
  // The points of the front on each device of a study.
  function devices(data, how) {
    var unit = timeUnit(data.devices.points);
    var seen = {points: data.devices.points, studies: data.devices.names, loss: data.loss, unit: data.unit};
    return beside(seen, how, data.loss + ' against latency on each device', false, 'latency in ' + unit.name + ' a sample',
                  function (p) { return p.latency / unit.ns; });
  }
  function beside(data, how, title, lines, axisName, across) {
    var theme = how.theme, all = measured(data);
    if (!all.length) return nothing(how, title, 'no measured candidates');
    var scale = lossScale(data, all, how), symbols = ['circle', 'rect', 'triangle', 'diamond', 'pin', 'arrow'], series = [];
    var option = frame(how, title);
    data.studies.forEach(function (name, s) {
      var own = all.filter(function (p) { return p.study === s; }), symbol = symbols[s % symbols.length];
      var color = [theme.front, theme.top, theme.float, theme.full, theme.second, theme.third][s % 6];
      function items(test) {
        return own.filter(test).map(scale.place).map(function (item) {
          item.value[0] = across(item.point);
          return item;
        });
      }
      var line = items(function (p) { return lines && p.outline; });
      line.sort(function (a, b) { return a.value[0] - b.value[0]; });
      series.push({name: name, type: 'line', step: 'end', data: line, symbol: symbol, symbolSize: 8, z: 3, cursor: 'default',
                   itemStyle: {color: color}, lineStyle: {color: color, width: 2, type: s ? 'dashed' : 'solid'}});
      series.push({name: name, type: 'scatter', z: 4, symbol: symbol, symbolSize: 8, cursor: 'default', itemStyle: {color: color},
                   data: items(function (p) { return (p.front && !(lines && p.outline)) || p.kind === 'float'; })});
      series.push({name: name, type: 'scatter', z: 5, symbol: 'circle', symbolSize: 22, cursor: 'default',
                   itemStyle: {color: 'transparent', borderColor: color, borderWidth: 2},
                   label: {show: true, formatter: 'selected', position: s % 2 ? 'bottom' : 'top', color: color, fontFamily: font},
                   data: items(function (p) { return p.selected; })});
    });
    option.tooltip.trigger = 'item';
    option.tooltip.formatter = function (item) {
      return item.data.point ? escape(data.studies[item.data.point.study]) + ': ' + describe(item.data.point, data) : '';
    };
    option.xAxis = withName(theme, {type: 'value', scale: true, boundaryGap: ['4%', '6%'], min: notBelowZero}, below(axisName));
    option.yAxis = scale.axis;
    option.series = series;
    return option;
  }

  function sensitivity(data, how) {
    var theme = how.theme, title = data.model + ': error of each tensor, in the order of exclusion';
    var all = data.activations.concat(data.weights);
    if (!all.length) return nothing(how, title, 'no error analysis in this study');
    var count = data.activations.length;

    function values(key) {
      return all.map(function (error) {
        var value = error[key];
        return typeof value !== 'number' ? '-' : key === 'score' ? value : Math.min(value, MOST_DB);
      });
    }
    function line(name, color, key, shape) {
      return {name: name, type: 'line', data: values(key), symbol: shape, symbolSize: all.length > 120 ? 3 : 6, z: 3,
              showAllSymbol: true, itemStyle: {color: color}, lineStyle: {color: color, width: 1.5}};
    }
    var series = [];
    if (count) {
      series.push({name: 'score', type: 'bar', yAxisIndex: 1, data: values('score'), barCategoryGap: '25%', z: 1,
                   itemStyle: {color: theme.third, opacity: 0.45}});
      series.push(line('qdq_err', theme.front, 'qdq_err', 'circle'));
      series.push(line('xmodel_err', theme.top, 'xmodel_err', 'triangle'));
    }
    if (data.weights.length) series.push(line('weight SQNR', theme.full, 'sqnr', 'rect'));

    var option = frame(how, title);
    option.tooltip.trigger = 'axis';
    option.tooltip.axisPointer = {type: 'shadow', shadowStyle: {color: theme.muted, opacity: 0.15}};
    option.tooltip.formatter = function (items) {
      var error = all[items[0].dataIndex];
      var parts = ['<b>' + escape(shorten(error.tensor, 60)) + '</b>'];
      if (typeof error.sqnr === 'number') parts.push('SQNR ' + figure(error.sqnr) + ' dB');
      if (error.qdq_err !== undefined) {
        parts.push('qdq_err ' + figure(error.qdq_err) + ' dB', 'xmodel_err ' + figure(error.xmodel_err) + ' dB',
                   'score ' + figure(error.score));
      }
      return parts.join('<br>');
    };
    var named = all.length <= (how.narrow ? 12 : 40);
    option.xAxis = withName(theme, {
      type: 'category', splitLine: {show: false},
      data: all.map(function (error, i) { return named ? shorten(error.tensor, 22) : String(i + 1); }),
      axisLabel: named ? {rotate: 55, interval: 0, hideOverlap: false, fontSize: 11} : {}
    }, named ? {} : below(count && data.weights.length ? 'position in the order: activations, then weights' :
                                                         'position in the order'));
    if (named) option.grid.bottom = how.title ? 28 : 8;
    var clipped = all.some(function (e) { return Math.max(e.qdq_err || 0, e.xmodel_err || 0, e.sqnr || 0) > MOST_DB; });
    option.yAxis = [
      axis(theme, {type: 'value', name: 'dB, more is better' + (clipped ? ' (at most ' + MOST_DB + ' drawn)' : ''),
                   nameTextStyle: {align: 'left'}}),
      axis(theme, {type: 'value', name: count ? 'score' : '', min: 0, max: 1, show: count > 0,
                   nameTextStyle: {align: 'right'}, splitLine: {show: false}})
    ];
    if (!how.narrow) option.grid.right = 12;
    option.series = series;
    return option;
  }

  function exclusion(data, how) {
    var theme = how.theme, trials = data.points.filter(function (p) { return p.kind !== 'float'; });
    // Results of the published tool have no lists: their cycles are shown in order.
    var list = trials.some(function (p) { return p.excluded > 0; });
    var title = data.model + ': ' + data.loss + ' and size ' + (list ? 'as the exclusion list grows' : 'of each trial');
    if (!measured({points: trials}).length) return nothing(how, title, 'no measured candidates');
    function position(p) { return list ? p.excluded : p.number; }
    trials.sort(function (a, b) { return position(a) - position(b) || a.number - b.number; });

    function line(name, color, shape, axisIndex, value, dashed) {
      return {name: name, type: 'line', yAxisIndex: axisIndex, symbol: shape, showSymbol: true, z: 3, cursor: 'default',
              symbolSize: trials.length > 120 ? 3 : 6, itemStyle: {color: color},
              lineStyle: {color: color, width: 2, type: dashed ? 'dashed' : 'solid'},
              data: trials.map(function (p) {
                var known = typeof p.loss === 'number';
                return {value: [position(p), known ? value(p) : '-'], point: p};
              })};
    }
    var option = frame(how, title);
    option.tooltip.trigger = 'axis';
    option.tooltip.axisPointer = {type: 'line', lineStyle: {color: theme.muted}};
    option.tooltip.formatter = function (items) {
      var p = items[0].data.point;
      return typeof p.loss === 'number' ? describe(p, data) :
                                          '<b>' + escape(p.id) + '</b><br>' + escape(shorten(p.failure || 'failed', 200));
    };
    option.xAxis = withName(theme, {type: 'value', minInterval: 1, min: 'dataMin', max: 'dataMax', splitLine: {show: false}},
                            below(list ? 'entries in the exclusion list' : 'trial'));
    option.yAxis = [
      axis(theme, {type: 'value', name: data.loss,
                   min: function (range) { return Math.min(0, range.min); },
                   nameTextStyle: {align: 'left', color: theme.front}, axisLabel: {color: theme.front, formatter: tick}}),
      axis(theme, {type: 'value', name: 'size in ' + data.unit.name, scale: true, splitLine: {show: false},
                   nameTextStyle: {align: 'right', color: theme.second}, axisLabel: {color: theme.second}})
    ];
    option.series = [
      line(data.loss, theme.front, 'circle', 0, function (p) { return p.loss; }),
      line('size', theme.second, 'rect', 1, function (p) { return p.size / data.unit.bytes; }, true)
    ];
    // As in the published plot: where the list stands for a candidate of the front, those of the top three by name.
    option.series[0].markLine = {silent: true, symbol: 'none', data: trials.filter(function (p) { return p.front; }).map(function (p) {
      return {xAxis: position(p), label: {show: p.rank > 0, formatter: pointName(p), color: theme.top, fontWeight: 600},
              lineStyle: {color: p.rank ? theme.top : theme.trial, type: 'dashed', width: p.rank ? 1.5 : 1}};
    })};
    if (!how.narrow) option.grid.right = 12;
    return option;
  }

  // Values of one tensor on a logarithmic scale of counts, and what its quantized type can hold. `tensor`: as
  // layer_data.cc writes it, with `name` and `role`.
  function histogram(tensor, how) {
    var theme = how.theme, counts = tensor.counts, first = tensor.bins[0], last = tensor.bins[1];
    var title = tensor.role + ': ' + shorten(tensor.name, how.title ? 60 : 40), width = (last - first) / counts.length;
    if (!(width > 0)) return nothing(how, title, 'all values are ' + figure(first));
    var least = 0.5;  // where a bin without values ends on the logarithmic axis
    var steps = counts.map(function (count, i) { return [first + i * width, count || least]; });
    steps.push([last, counts[counts.length - 1] || least]);
    var bars = {name: 'values', type: 'line', step: 'end', data: steps, symbol: 'none', silent: true,
                lineStyle: {color: theme.front, width: 1}, areaStyle: {color: theme.front, opacity: 0.45, origin: 'start'}};
    var low = first, high = last, held = tensor.quantized;
    if (held) {
      low = Math.min(low, held.range[0]);
      high = Math.max(high, held.range[1]);
      bars.markArea = {silent: true, itemStyle: {color: theme.top, opacity: 0.1},
                       data: [[{xAxis: held.range[0]}, {xAxis: held.range[1]}]]};
      bars.markLine = {silent: true, symbol: 'none', lineStyle: {color: theme.top, type: 'dashed', width: 1},
                       label: {show: true, color: theme.top, formatter: held.type, position: 'insideEndTop'},
                       data: [{xAxis: held.range[0], label: {show: false}}, {xAxis: held.range[1]}]};
    }
    var option = frame(how, title), room = (high - low) * 0.03;
    option.legend.show = false;
    option.grid.top = how.title ? 84 : 28;
    option.xAxis = withName(theme, {type: 'value', min: low - room, max: high + room, splitLine: {show: false},
                                    axisLabel: {formatter: function (x) { return figure(x); }, showMinLabel: false,
                                                showMaxLabel: false}}, below('value'));
    option.yAxis = axis(theme, {type: 'log', min: least, axisLine: {onZero: false}, name: 'values  (log)', nameTextStyle: {align: 'left'},
                                axisLabel: {formatter: function (y) { return y < 1 ? '' : y < 1e4 ? figure(y) : tick(y); }}});
    option.series = [bars];
    return option;
  }

  return {describe: describe, schemeColour: schemeColour, front: front, latency: latency, layer_losses: layerLosses, fronts: fronts, devices: devices, histogram: histogram, figure: figure, pointName: pointName, sensitivity: sensitivity, exclusion: exclusion, wantsLog: wantsLog, light: light, dark: dark};
})();
