"""Sixteen bytes at a time: one load or store of four 32-bit words.

Plain indexing in Numba-CUDA gives accesses of at most eight bytes. The functions here take a flat
array of 32-bit words and an index that is a multiple of four, and become a single
``ld.global.v4``, ``st.global.v4`` or, for shared memory, ``ld.shared.v4`` and ``st.shared.v4``.
The simulator has no memory spaces; there plain twins check what a device does not: that the
index is aligned and inside the array.

This module reaches into the compiler, so it changes with it (see `kernels.backend`).
"""

import numpy as np
from numba import config

SIMULATED = bool(config.ENABLE_CUDASIM)
ALIGNED = None if SIMULATED else 16  # alignment of shared arrays; the simulator takes none


def _inside(array, index):
    if index % 4 or not 0 <= index <= array.size - 4:
        raise IndexError(f"index={index}; accepted: multiples of 4 in 0 … {array.size - 4}.")


def _plain_load(array, index):
    _inside(array, index)
    return array[index], array[index + 1], array[index + 2], array[index + 3]


def _plain_store(array, index, values):
    _inside(array, index)
    for i in range(4):
        array[index + i] = values[i]


def _plain_float(word):
    return np.int32(word).view(np.float32)


def _plain_halves(word):
    low, high = np.array([word], np.int32).view(np.float16).astype(np.float32)
    return low, high


def _compiled():
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    word, real, half = ir.IntType(32), ir.FloatType(), ir.HalfType()
    four = 4

    def pointer(context, builder, kind, array, index, space):
        """Address of ``array[index]`` as a pointer to four words in memory space `space`."""
        data = context.make_array(kind)(context, builder, array).data
        element = builder.gep(data, [index])
        vector = ir.VectorType(context.get_value_type(kind.dtype), four)
        return builder.addrspacecast(
            builder.bitcast(element, vector.as_pointer()), vector.as_pointer(space)
        )

    def load(space):
        @intrinsic
        def load4(typing, array, index):
            result = types.UniTuple(array.dtype, four)

            def generate(context, builder, signature, args):
                place = pointer(context, builder, signature.args[0], *args, space)
                loaded = builder.load(place, align=16)
                parts = [builder.extract_element(loaded, word(i)) for i in range(four)]
                return context.make_tuple(builder, result, parts)

            return result(array, types.intp), generate

        return load4

    def store(space):
        @intrinsic
        def store4(typing, array, index, values):
            def generate(context, builder, signature, args):
                kind = signature.args[0]
                place = pointer(context, builder, kind, args[0], args[1], space)
                vector = ir.VectorType(context.get_value_type(kind.dtype), four)(ir.Undefined)
                for i in range(four):
                    part = builder.extract_value(args[2], i)
                    vector = builder.insert_element(vector, part, word(i))
                builder.store(vector, place, align=16)
                return context.get_dummy_value()

            values = types.UniTuple(array.dtype, four)
            return types.void(array, types.intp, values), generate

        return store4

    @intrinsic
    def as_float(typing, bits):
        def generate(context, builder, signature, args):
            return builder.bitcast(args[0], real)

        return types.float32(types.int32), generate

    @intrinsic
    def as_halves(typing, bits):
        result = types.UniTuple(types.float32, 2)

        def generate(context, builder, signature, args):
            pair = builder.bitcast(args[0], ir.VectorType(half, 2))
            parts = [builder.fpext(builder.extract_element(pair, word(i)), real) for i in (0, 1)]
            return context.make_tuple(builder, result, parts)

        return result(types.int32), generate

    return load(1), store(1), load(3), store(3), as_float, as_halves


if SIMULATED:
    load_global, store_global = load_shared, store_shared = _plain_load, _plain_store
    as_float, as_halves = _plain_float, _plain_halves
else:
    load_global, store_global, load_shared, store_shared, as_float, as_halves = _compiled()
