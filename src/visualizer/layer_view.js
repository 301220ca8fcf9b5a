// One layer at a time: its tensors, what values they take, what int8 holds of them, its scheme and why.
var layerView = (function () {
  'use strict';
  var data = page.data, view = data.view, at = function (id) { return document.getElementById(id); };
  var candidate = at('model-candidate'), choice = at('layer-choice'), shown = [], listeners = [];

  function element(name, text) {
    var made = document.createElement(name);
    made.textContent = text;
    return made;
  }
  function option(select, value, text) {
    var made = element('option', text);
    made.value = value;
    select.appendChild(made);
  }
  // [scheme, reason] of a layer in the chosen candidate.
  function decision(layer) {
    var known = (view.plans[candidate.value] || [])[layer];
    return known ? [view.texts[known[0]], view.texts[known[1]]] : ['float32', ''];
  }

  // What is known of the layer's tensors, with their names and roles.
  function tensorsOf(layer) {
    var tensors = [];
    [['input', layer.inputs], ['weight', layer.weights], ['output', layer.outputs]].forEach(function (kind) {
      kind[1].forEach(function (name) {
        var known = view.tensors[name] || {}, tensor = {name: name, role: kind[0]};
        Object.keys(known).forEach(function (key) { tensor[key] = known[key]; });
        tensors.push(tensor);
      });
    });
    return tensors;
  }
  function span(range) { return plots.figure(range[0]) + ' to ' + plots.figure(range[1]); }
  function errorWords(t) {
    var words = [];
    [['SQNR', t.sqnr], ['qdq', t.qdq_err], ['xmodel', t.xmodel_err]].forEach(function (error) {
      if (typeof error[1] === 'number') words.push(error[0] + ' ' + plots.figure(error[1]));
    });
    return words.join(', ') || '\u2013';
  }

  function showTensors(tensors) {
    var body = at('layer-tensors').tBodies[0];
    body.textContent = '';
    tensors.forEach(function (t) {
      var row = body.insertRow(), held = t.quantized, name = row.insertCell();
      name.appendChild(element('code', t.name));
      [t.role, t.range && span(t.range),
       held && span(held.range) + ', ' + held.type + ' in steps of ' + plots.figure(held.scale) +
         (held.channels > 1 ? ' at most (' + held.channels + ' channels)' : ''),
       errorWords(t)].forEach(function (text) { row.insertCell().textContent = text || '\u2013'; });
    });
  }
  function showPlots(tensors) {
    shown.forEach(page.remove);
    shown = [];
    at('layer-plots').textContent = '';
    tensors = tensors.filter(function (t) { return t.counts; });
    // All boxes first: they share the width.
    var boxes = tensors.map(function (t) {
      var figure = document.createElement('figure'), box = document.createElement('div');
      figure.appendChild(element('figcaption', t.role + ': ' + t.name));
      box.className = 'plot';
      box.setAttribute('role', 'img');
      box.setAttribute('aria-label', 'Histogram of ' + t.role + ' ' + t.name + ', from ' + plots.figure(t.range[0]) +
                                     ' to ' + plots.figure(t.range[1]));
      figure.appendChild(box);
      at('layer-plots').appendChild(figure);
      return box;
    });
    tensors.forEach(function (t, i) {
      shown.push(page.add(boxes[i], 'values_' + t.name.replace(/[^\w.-]+/g, '_'),
                          function (how) { return plots.histogram(t, how); }));
    });
  }

  function show() {
    var index = Number(choice.value), layer = view.layers[index], decided = decision(index), facts = at('layer-facts').tBodies[0];
    at('layer-name').textContent = layer.name;
    at('layer-scheme').textContent = decided[0] + (decided[1] ? ': ' + decided[1] : '');
    facts.textContent = '';
    [['operator', layer.op], ['output', layer.shape], ['weights', layer.weights_text]].forEach(function (fact) {
      if (!fact[1]) return;
      var row = facts.insertRow(), head = element('th', fact[0]);
      head.setAttribute('scope', 'row');
      row.appendChild(head);
      row.insertCell().textContent = fact[1];
    });
    var tensors = tensorsOf(layer);
    showTensors(tensors);
    showPlots(tensors);
    at('layer-before').disabled = index === 0;
    at('layer-after').disabled = index === view.layers.length - 1;
    listeners.forEach(function (listener) { listener(index); });
  }
  function choose(index) {
    choice.value = String(index);
    show();
  }

  option(candidate, 'float', 'float');
  data.points.forEach(function (point) {
    if (!view.plans[point.id]) return;
    option(candidate, point.id, plots.pointName(point) + ', ' + point.size_text + (point.selected ? ', selected' : ''));
    if (point.selected) candidate.value = point.id;
  });
  view.layers.forEach(function (layer, index) {
    option(choice, String(index), layer.name + (layer.op ? ' (' + layer.op + ')' : ''));
  });
  candidate.addEventListener('change', show);
  choice.addEventListener('change', show);
  at('layer-before').addEventListener('click', function () { choose(Number(choice.value) - 1); });
  at('layer-after').addEventListener('click', function () { choose(Number(choice.value) + 1); });
  page.onPoint(function (id) {
    if (!view.plans[id]) return;
    candidate.value = id;
    show();
  });
  at('model').hidden = false;
  // The first layer with weights says most.
  choose(Math.max(0, view.layers.map(function (layer) { return layer.weights.length > 0; }).indexOf(true)));
  // `onChoice(act)`: act is called with the layer's position when another layer or candidate is shown.
  return {choose: choose, decision: decision, current: function () { return Number(choice.value); },
          onChoice: function (act) { listeners.push(act); }};
})();
