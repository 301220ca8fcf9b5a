// The model as a graph: layers from top to bottom, coloured by their scheme in the chosen candidate. Moves, zooms, and can
// be walked with the keyboard. dagre finds the places.
(function () {
  'use strict';
  var box = document.getElementById('graph'), view = page.data.view, MOST = 3000;
  var WIDTH = 168, HEIGHT = 40, SVG = 'http://www.w3.org/2000/svg';
  var nodes = [], edges = [], svg, where = {x: 0, y: 0, scale: 1}, whole, current = -1;

  function colour(scheme) { return plots.schemeColour(scheme, page.theme()); }

  function make(name, attributes, parent) {
    var made = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (parent) parent.appendChild(made);
    return made;
  }
  function shorten(text, most) { return text.length <= most ? text : '\u2026' + text.slice(text.length - most + 1); }

  // Who makes a tensor is joined with all who read it; inputs of the model are nodes too.
  function connect() {
    var makers = {};
    view.layers.forEach(function (layer, i) {
      nodes.push({layer: i, name: layer.name, op: layer.op || '', after: [], before: []});
      layer.outputs.forEach(function (tensor) { makers['$' + tensor] = i; });
    });
    view.layers.forEach(function (layer, i) {
      layer.inputs.forEach(function (tensor) {
        var maker = makers['$' + tensor];
        if (maker === undefined) {
          maker = makers['$' + tensor] = nodes.length;
          nodes.push({layer: -1, name: tensor, op: 'input', after: [], before: []});
        }
        if (maker === i || nodes[maker].after.indexOf(i) >= 0) return;
        nodes[maker].after.push(i);
        nodes[i].before.push(maker);
        edges.push({from: maker, to: i});
      });
    });
  }

  function place() {
    var g = new dagre.graphlib.Graph();
    g.setGraph({nodesep: 22, ranksep: 26, marginx: 12, marginy: 12, ranker: 'longest-path'});
    nodes.forEach(function (node, i) { g.setNode(String(i), {width: WIDTH, height: HEIGHT}); });
    edges.forEach(function (edge) { g.setEdge(String(edge.from), String(edge.to), {}); });
    dagre.layout(g);
    nodes.forEach(function (node, i) {
      node.x = g.node(String(i)).x;
      node.y = g.node(String(i)).y;
    });
    edges.forEach(function (edge) { edge.points = g.edge(String(edge.from), String(edge.to)).points; });
    whole = {width: g.graph().width, height: g.graph().height};
  }

  function draw() {
    var font = 'system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif';
    svg = make('svg', {xmlns: SVG, role: 'presentation', 'font-family': font, 'font-size': 12});
    var marker = make('marker', {id: 'graph-arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
                                 orient: 'auto-start-reverse'}, make('defs', {}, svg));
    edges.arrow = make('path', {d: 'M0 0 8 4 0 8z'}, marker);
    edges.forEach(function (edge) {
      edge.path = make('path', {d: 'M' + edge.points.map(function (p) { return p.x.toFixed(1) + ' ' + p.y.toFixed(1); }).join('L'),
                                fill: 'none', 'stroke-width': 1.2, 'marker-end': 'url(#graph-arrow)'}, svg);
    });
    nodes.forEach(function (node, i) {
      var group = make('g', {transform: 'translate(' + (node.x - WIDTH / 2).toFixed(1) + ' ' + (node.y - HEIGHT / 2).toFixed(1) + ')',
                             tabindex: -1, role: 'button', 'data-node': i}, svg);
      node.group = group;
      node.rect = make('rect', {width: WIDTH, height: HEIGHT, rx: node.layer < 0 ? 20 : 5, 'stroke-width': 1}, group);
      node.first = make('text', {x: 8, y: 16, 'font-weight': 600}, group);
      node.second = make('text', {x: 8, y: 32}, group);
      node.second.textContent = shorten(node.name, 25);
      make('title', {}, group).textContent = node.name;
    });
    box.textContent = '';
    box.appendChild(svg);
  }

  function paint() {
    var theme = page.theme();
    edges.arrow.setAttribute('fill', theme.muted);
    edges.forEach(function (edge) { edge.path.setAttribute('stroke', theme.muted); });
    var seen = {};
    nodes.forEach(function (node) {
      var scheme = node.layer < 0 ? '' : layerView.decision(node.layer)[0], chosen = node.layer === layerView.current();
      if (scheme) seen[scheme] = (seen[scheme] || 0) + 1;
      node.rect.setAttribute('fill', scheme ? colour(scheme) : theme.card);
      node.rect.setAttribute('stroke', chosen ? theme.top : theme.muted);
      node.rect.setAttribute('stroke-width', chosen ? 3 : 1);
      node.first.textContent = shorten(node.op, 13) + (scheme ? ' \u00b7 ' + scheme : '');
      node.first.setAttribute('fill', theme.text);
      node.second.setAttribute('fill', theme.text);
      node.group.setAttribute('aria-label', node.op + (scheme ? ' \u00b7 ' + scheme : '') + ' ' + node.name);
      if (chosen) node.group.setAttribute('aria-current', 'true');
      else node.group.removeAttribute('aria-current');
    });
    var legend = document.getElementById('graph-legend');
    legend.textContent = '';
    Object.keys(seen).sort().forEach(function (scheme) {
      var item = document.createElement('li'), patch = document.createElement('span');
      patch.style.background = colour(scheme);
      item.appendChild(patch);
      item.appendChild(document.createTextNode(scheme + ': ' + seen[scheme]));
      legend.appendChild(item);
    });
  }

  function look() {
    svg.setAttribute('viewBox', [where.x, where.y, box.clientWidth / where.scale, box.clientHeight / where.scale].join(' '));
  }
  function zoom(factor, x, y) {  // around a point of the box, its middle by default
    x = x === undefined ? box.clientWidth / 2 : x;
    y = y === undefined ? box.clientHeight / 2 : y;
    var scale = Math.min(4, Math.max(0.01, where.scale * factor));
    where.x += x / where.scale - x / scale;
    where.y += y / where.scale - y / scale;
    where.scale = scale;
    look();
  }
  function fit() {
    where.scale = Math.min(1.2, box.clientWidth / whole.width, box.clientHeight / whole.height);
    where.x = (whole.width - box.clientWidth / where.scale) / 2;
    where.y = (whole.height - box.clientHeight / where.scale) / 2;
    look();
  }
  function center(node) {
    where.x = node.x - box.clientWidth / where.scale / 2;
    where.y = Math.max(0, node.y - box.clientHeight / where.scale / 2);
    look();
  }
  function near(node) {  // what can be read, around one layer
    where.scale = Math.max(where.scale, 0.8);
    center(node);
  }

  function walk(to, focus) {
    if (nodes[current]) nodes[current].group.setAttribute('tabindex', -1);
    current = to;
    var node = nodes[to];
    node.group.setAttribute('tabindex', 0);
    if (!focus) return;
    var width = box.clientWidth / where.scale, height = box.clientHeight / where.scale;
    if (node.x < where.x + WIDTH / 2 || node.x > where.x + width - WIDTH / 2 || node.y < where.y + HEIGHT ||
        node.y > where.y + height - HEIGHT) center(node);
    node.group.focus({preventScroll: true});
  }
  // The nearest layer to the left (-1) or right (1) at about the same height.
  function beside(way) {
    var here = nodes[current], best = -1;
    nodes.forEach(function (node, i) {
      if (Math.abs(node.y - here.y) > HEIGHT || (node.x - here.x) * way <= 0) return;
      if (best < 0 || Math.abs(node.x - here.x) < Math.abs(nodes[best].x - here.x)) best = i;
    });
    return best;
  }
  function open(i) {
    walk(i);
    if (nodes[i].layer < 0) return;
    layerView.choose(nodes[i].layer);
  }

  function listen() {
    box.addEventListener('keydown', function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;  // the browser's own
      var here = nodes[current], to = -1, step = 60 / where.scale;
      switch (event.key) {
        case 'ArrowDown': to = here.after.length ? here.after[0] : -1; break;
        case 'ArrowUp': to = here.before.length ? here.before[0] : -1; break;
        case 'ArrowLeft': to = beside(-1); break;
        case 'ArrowRight': to = beside(1); break;
        case 'Home': to = 0; break;
        case 'End': to = view.layers.length - 1; break;
        case 'Enter': case ' ':
          open(current);
          if (here.layer >= 0) document.getElementById('layer-name').focus();
          break;
        case '+': case '=': zoom(1.25); break;
        case '-': zoom(0.8); break;
        case '0': fit(); break;
        case 'PageDown': where.y += 6 * step; look(); break;
        case 'PageUp': where.y -= 6 * step; look(); break;
        default: return;
      }
      event.preventDefault();
      if (to >= 0) walk(to, true);
    });
    box.addEventListener('wheel', function (event) {
      if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
      event.preventDefault();
      var at = box.getBoundingClientRect();
      zoom(Math.pow(1.0015, -event.deltaY), event.clientX - at.left, event.clientY - at.top);
    }, {passive: false});
    var held = null;
    box.addEventListener('pointerdown', function (event) { held = {x: event.clientX, y: event.clientY, far: 0}; });
    window.addEventListener('pointermove', function (event) {
      if (!held) return;
      held.far += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
      where.x -= (event.clientX - held.x) / where.scale;
      where.y -= (event.clientY - held.y) / where.scale;
      held.x = event.clientX;
      held.y = event.clientY;
      look();
    });
    var moved = false;
    window.addEventListener('pointerup', function () { moved = !!held && held.far > 5; held = null; });
    window.addEventListener('pointercancel', function () { held = null; });
    box.addEventListener('click', function (event) {
      var group = event.target.closest('[data-node]');
      if (group && !moved) open(Number(group.getAttribute('data-node')));
    });
    [['in', function () { zoom(1.4); }], ['out', function () { zoom(1 / 1.4); }], ['fit', fit],
     ['here', function () { near(nodes[layerView.current()]); }]].forEach(function (entry) {
      document.getElementById('graph-' + entry[0]).addEventListener('click', entry[1]);
    });
  }

  // The whole graph in its colours as a file of its own.
  function save(type) {
    var copy = svg.cloneNode(true), width = Math.ceil(whole.width), height = Math.ceil(whole.height);
    copy.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    copy.insertBefore(make('rect', {width: width, height: height, fill: page.theme().card}), copy.firstChild);
    var text = new XMLSerializer().serializeToString(copy);
    if (type === 'svg') return page.download('model.svg', new Blob([text], {type: 'image/svg+xml'}));
    var image = new Image(), canvas = document.createElement('canvas');
    image.onload = function () {
      var scale = Math.min(2, 16000 / Math.max(width, height));  // browsers have no larger canvas
      canvas.width = Math.max(1, width * scale);
      canvas.height = Math.max(1, height * scale);
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(function (blob) { page.download('model.png', blob); });
    };
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  }

  function begin() {
    if (svg) return;
    connect();
    place();
    draw();
    paint();
    listen();
    walk(layerView.current());
    fit();
    if (where.scale < 0.5) {
      where.scale = 0.8;
      center(nodes[current]);
    }
    page.savers(box, 'model', save);
    page.onTheme(function () { paint(); look(); });
    layerView.onChoice(function (layer) { paint(); walk(layer); });
  }

  if (view.layers.length > MOST) {
    box.textContent = 'A graph of ' + view.layers.length + ' layers is not drawn; choose layers from the list.';
    return;
  }
  box.textContent = 'The graph is being laid out\u2026';
  // Large models take a second or more: not before the reader comes near.
  new IntersectionObserver(function (seen, observer) {
    if (!seen.some(function (entry) { return entry.isIntersecting; })) return;
    observer.disconnect();
    setTimeout(begin, 20);
  }, {rootMargin: '400px'}).observe(box);
  window.addEventListener('beforeprint', begin);  // on paper nobody comes near
})();
