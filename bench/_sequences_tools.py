"""Files of other tools for sequences.py: onnxruntime-genai's rule, NNCF. Each is a list of (bytes, path)."""
import contextlib
import io
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer as nbits

import _peers

BLOCKS = 4  # of each of the transformers


def for_other_tools(source, out):
    """The model as the other tools take it: a head that reads the embedding through a Transpose reads a copy, a Gemm is a
    MatMul and an Add. Returns the name of the table that is there twice then."""
    model = onnx.load(source)
    constants = {i.name: i for i in model.graph.initializer}
    shared, nodes = None, []

    def turned(name, to):
        values = np.ascontiguousarray(numpy_helper.to_array(constants[name]).T)
        model.graph.initializer.append(numpy_helper.from_array(values, to))

    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in constants:
            shared = node.input[0]
            turned(shared, node.output[0])
        elif node.op_type == "Gemm" and [a.name for a in node.attribute if a.name == "transB"]:
            product, weight = f"{node.output[0]}_product", f"{node.input[1]}_turned"
            turned(node.input[1], weight)
            nodes.append(onnx.helper.make_node("MatMul", [node.input[0], weight], [product], node.name))
            nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], list(node.output), f"{node.name}_bias"))
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    kept = [i for i in model.graph.initializer if i.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, out)
    return shared


def counted(path, shared):
    """Bytes of a file less what is there of a table that the head has too."""
    twice = sum(len(i.raw_data) for i in onnx.load(path).graph.initializer if shared and i.name.startswith(shared))
    return path.stat().st_size - twice


def nncf(source, shared, data, folder, count):
    python = _peers.python_with(Path(os.environ["SEQTO_SOURCE_DIR"]), _peers.NNCF, "sequences")
    if python and not list(folder.glob("nncf*.onnx")):
        subprocess.run([python, "-B", Path(__file__).parent / "_sequences_nncf.py", source, data, folder / "nncf", str(count)],
                       check=True, stdout=subprocess.DEVNULL)
    return sorted((counted(path, shared), path) for path in folder.glob("nncf*.onnx"))


def mixed_blocks(products):
    """Value and down projections that the rule gives 8 bits, by their places: a block is q, k, v, o and the rest."""
    blocks, size = products
    chosen = [b for b in range(blocks) if b < blocks / 8 or b >= 7 * blocks / 8 or (b - round(blocks / 8)) % 3 == 2]
    return [b * size + place for b in chosen for place in (2, size - 1)]


def rounded_table(model, name, block):
    """The embedding as GatherBlockQuantized reads 8-bit codes that a head shares: in float here, which is the same."""
    at = next(k for k, i in enumerate(model.graph.initializer) if i.name == name)
    values = numpy_helper.to_array(model.graph.initializer[at])
    blocks = values.reshape(len(values), -1, min(block, values.shape[1]))
    scale = np.maximum(np.abs(blocks).max(-1, keepdims=True) / 127, 1e-30)
    model.graph.initializer[at].CopyFrom(
        numpy_helper.from_array((np.round(blocks / scale) * scale).reshape(values.shape).astype(np.float32), name))


def genai(source, shared, folder):
    """onnxruntime-genai's builder: algo_config k_quant or rtn with last_matmul and mixed_layers in 8 bits; the embedding in
    the head's bits, as with its shared_embeddings."""
    model = onnx.load(source)
    constants = {i.name for i in model.graph.initializer}
    products = [n.name for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in constants]
    mixed = {products[i]: {"bits": 8} for i in mixed_blocks((BLOCKS, (len(products) - 1) // BLOCKS))}
    head = {products[-1]: {"bits": 8}}
    found = []
    for method, block in ("k_quant", 16), ("k_quant", 32), ("k_quant", 64), ("rtn", 16), ("rtn", 32):
        for name, rule in {"": {}, "last": head, "mixed": mixed, "both": {**mixed, **head}}.items():
            path = folder / f"genai_{method}{block}{name}.onnx"
            if not path.exists():
                config = nbits.RTNWeightOnlyQuantConfig if method == "rtn" else nbits.KQuantWeightOnlyQuantConfig
                made = quantized(onnx.load(source), block, config(customized_weight_config=rule))
                if shared and head.items() <= rule.items():
                    rounded_table(made, shared, block)
                else:
                    made = quantized(made, block, nbits.DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=True,
                                                                                     op_types_to_quantize=("Gather",)))
                onnx.save(made, path)
            found.append((counted(path, shared), path))
    return found


def quantized(model, block, config):
    quantizer = nbits.MatMulNBitsQuantizer(model, bits=4, block_size=block, is_symmetric=True, algo_config=config)
    with contextlib.redirect_stdout(io.StringIO()):  # its progress
        quantizer.process()
    return quantizer.model.model
