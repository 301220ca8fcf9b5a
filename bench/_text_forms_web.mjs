// Times files on ONNX Runtime for the web, in turn: times over the first file's. Called by text_forms.py.
import fs from 'node:fs';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const [folder, feedsFile, rounds, ...files] = process.argv.slice(2);
const ort = await import(pathToFileURL(path.join(folder, 'ort.wasm.bundle.min.mjs')));
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = fs.readFileSync(path.join(folder, 'ort-wasm-simd-threaded.wasm'));
const tensor = ({type, dims, values}) =>
    new ort.Tensor(type, type === 'int64' ? BigInt64Array.from(values, BigInt) : Float32Array.from(values), dims);
const feeds = JSON.parse(fs.readFileSync(feedsFile)).map(
    feed => Object.fromEntries(Object.entries(feed).map(([name, given]) => [name, tensor(given)])));
const sessions = [];
for (const file of files)
  sessions.push(await ort.InferenceSession.create(
      fs.readFileSync(file), {executionProviders: ['wasm'], logSeverityLevel: 3}));
const times = files.map(() => []);
for (let round = 0; round < Number(rounds); ++round)
  for (const [i, session] of sessions.entries()) {
    const start = performance.now();
    for (const feed of feeds) await session.run(feed);
    times[i].push(performance.now() - start);
  }
const median = own => own.toSorted((a, b) => a - b)[own.length >> 1];
console.log(JSON.stringify({release: `web ${ort.env.versions.web}`, times: times.map(own => median(own) / median(times[0]))}));
