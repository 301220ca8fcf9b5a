// Runs ONNX files on ONNX Runtime for the web under Node: a worker as runtime_worker.py is one.
// arguments: MODULE --threads N --blobs FOLDER [--blobs FOLDER ...]; MODULE is ort.wasm.bundle.min.mjs, its .wasm beside it.
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import {pathToFileURL} from 'node:url';

const [file, ...words] = process.argv.slice(1);
const blobs = words.filter((_, i) => words[i - 1] === '--blobs');
console.log = console.info = console.error;  // what the runtime prints is for people

const ort = await import(pathToFileURL(file));
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = fs.readFileSync(path.join(path.dirname(file), 'ort-wasm-simd-threaded.wasm'));

const kArrays = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, uint64: BigUint64Array, int32: Int32Array,
                 uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
                 float16: Uint16Array};
const sessions = new Map();

function toTensor({type, dims, blob, base64}) {
  const folder = blob && blobs.find((f) => fs.existsSync(path.join(f, blob)));
  const bytes = Uint8Array.from(blob ? fs.readFileSync(path.join(folder, blob)) : Buffer.from(base64, 'base64'));
  return new ort.Tensor(type, new kArrays[type](bytes.buffer), dims);
}

function fromTensor({type, dims, data}) {
  return {type, dims, base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')};
}

const kVerbs = {
  hello: () => ({protocol: 1, device: 'web', runner: `onnxruntime-web ${ort.env.versions.web} (wasm, 1 thread)`, threads: 1}),
  load: async ({id, file}) => {
    const options = {executionProviders: ['wasm'], logSeverityLevel: 3};
    const session = await ort.InferenceSession.create(fs.readFileSync(file), options);
    sessions.set(id, session);
    return {session: id, inputs: session.inputNames, outputs: session.outputNames};
  },
  run: async ({session, inputs}) => {
    const loaded = sessions.get(session);
    const feeds = Object.fromEntries(inputs.map((tensor, i) => [loaded.inputNames[i], toTensor(tensor)]));
    const begin = process.hrtime.bigint();
    const found = await loaded.run(feeds);
    const ns = Number(process.hrtime.bigint() - begin);
    return {ns, outputs: loaded.outputNames.map((name) => fromTensor(found[name]))};
  },
  unload: async ({session}) => {
    await sessions.get(session).release();
    sessions.delete(session);
    return {};
  },
  cancel: () => ({found: false}),
  shutdown: () => ({}),
};

for await (const line of readline.createInterface({input: process.stdin})) {
  const request = JSON.parse(line);
  let reply;
  try {
    if (!(request.verb in kVerbs)) throw Error(`verb '${request.verb}' found; web knows ${Object.keys(kVerbs).join(', ')}`);
    reply = {ok: await kVerbs[request.verb](request)};
  } catch (error) {
    reply = {error: {code: 'invalid_input', message: `[web] ${error?.message ?? error}`}};
  }
  process.stdout.write(JSON.stringify({id: request.id, ...reply}) + '\n');
  if (request.verb === 'shutdown') break;
}
process.exit(0);
