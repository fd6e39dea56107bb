# ruff: noqa: E501 - a line for each mistake reads better than three
"""Mistakes as people make them, to be planted in the CUDA files one at a time: (file, whose calls run it, the text that
is there, the text that takes its place[, which of several places])."""

NAN_LOSES = "return a > b ? a : b;"
PLANTED = [
    # strides and tails
    ("common.cuh", "exp", "i##_step = (long long)gridDim.x * blockDim.x;", "i##_step = (long long)gridDim.x * blockDim.x + blockDim.x;"),
    ("common.cuh", "softmax", "(long long)gridDim.x * (blockDim.x / WARP)", "(long long)gridDim.x * (blockDim.x / WARP) * 2"),
    ("common.cuh", "linear", "(long long)blockIdx.y * blockDim.x + threadIdx.x, c##_step", "(long long)threadIdx.x, c##_step"),
    ("cross_entropy.cu", "cross_entropy", "n += gridDim.x", "n += gridDim.x + 1"),
    ("linear_cross_entropy.cu", "linear_cross_entropy", "n += gridDim.x", "n += 2 * gridDim.x"),
    ("softmax.cu", "softmax", "LANE_STRIDE_LOOP(c, C) out[c] *= share;", "LANE_STRIDE_LOOP(c, C - 1) out[c] *= share;"),
    ("embedding.cu", "embedding", "position < starts[u + 1]", "position < starts[u + 1] - 1"),
    ("reduce.cu", "max", "? M - first : BLOCK;", "? (M - first) / WARP * WARP : BLOCK;", 1),
    ("reduce.cu", "sum", "partial[task] = total", "partial[o] = total"),
    ("reduce.cu", "sum_of_squares", "count = M - first < BLOCK ? M - first : BLOCK;", "count = BLOCK;", 2),
    ("layer_norm.cu", "layer_norm", "last = first + ROWS < N ? first + ROWS : N;", "last = first + ROWS;"),
    ("linear.cu", "linear", "n < last", "n <= last"),
    # sums and maxima of warps and blocks
    ("common.cuh", "cross_entropy", "lane < warps ? partial[lane] : (real)0", "lane == 0 ? partial[lane] : (real)0"),
    ("common.cuh", "softmax", "offset > 0; offset /= 2) value +=", "offset > 1; offset /= 2) value +="),
    ("common.cuh", "max", "return (a > b || a != a) ? a : b;", NAN_LOSES),
    ("common.cuh", "log_softmax", "            part = 0;\n", ""),
    ("cross_entropy.cu", "cross_entropy", "block_sum(logit_sum.total())", "warp_sum(logit_sum.total())"),
    ("linear_cross_entropy.cu", "linear_cross_entropy", "top = block_max(top);", "top = warp_max(top);"),
    ("layer_norm.cu", "layer_norm", "if (threadIdx.x % WARP == 0) {", "if (threadIdx.x == 0) {"),
    # barriers and races
    ("common.cuh", "cross_entropy", "    __syncthreads();\n    return value;", "    return value;"),
    ("common.cuh", "cross_entropy", "partial[warp] = value;\n    __syncthreads();", "partial[warp] = value;", 1),
    ("dropout.cu", "dropout", "        __syncwarp(ALL_LANES);  // the next strip overwrites the words\n", ""),
    ("dropout.cu", "dropout", "        __syncwarp(ALL_LANES);\n        for", "        for"),
    ("layer_norm.cu", "layer_norm", "dweight[blockIdx.x * C + c]", "dweight[c]"),
    ("attention.cu", "attention", "            __syncthreads();  // everybody is done with what is overwritten now\n", ""),
    ("attention.cu", "attention", "        __syncwarp(ALL_LANES);  // a row of ds_tile is written and read within one warp\n", ""),
    # out of bounds
    ("embedding.cu", "embedding", "        if (c >= C) continue;\n", ""),
    ("attention_tile.cuh", "attention", "if (first + r < end && lane", "if (lane"),
    ("attention_tile.cuh", "attention", "row < rows && d < columns", "d < columns"),
    # 32 bits
    ("common.cuh", "exp", "i = (long long)blockIdx.x * blockDim.x + threadIdx.x, i##_step", "i = (int)(blockIdx.x * blockDim.x + threadIdx.x), i##_step"),
    ("common.cuh", "softmax", "row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP", "row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP"),
    ("softmax.cu", "softmax", "const long long first = n * C;", "const int first = (int)(n * C);"),
    ("layer_norm.cu", "layer_norm", "dy[row * C + c];", "dy[(unsigned int)(row * C + c)];"),
    ("cross_entropy.cu", "cross_entropy", "exp(logits[n * V + v] - lse[n])", "exp(logits[(int)(n * V + v)] - lse[n])"),
    ("embedding.cu", "embedding", "weight + ids[n] * C", "weight + (int)(ids[n] * C)"),
    ("reduce.cu", "sum", "first = (task - o * blocks) * BLOCK;", "first = (int)((task - o * blocks) * BLOCK);"),
    ("attention.cu", "attention", "q += head * T * D, lse", "q += (int)(head * T * D), lse"),
    ("quantised_linear.cu", "dequantise", "w[b * WARP + lane]", "w[(int)(b * WARP + lane)]"),
    ("quantised_linear.cu", "dequantise", "weight + b * BYTES(kind)", "weight + (int)(b * BYTES(kind))"),
    ("quantised_linear.cu", "quantised_linear", "x + n * K * WARP", "x + (int)(n * K * WARP)"),
    ("quantised_linear.cu", "quantised_linear", "weight + f * K * BYTES(kind)", "weight + (int)(f * K * BYTES(kind))"),
    ("dropout.cu", "dropout", "(unsigned int)(counter >> 32)", "0"),
    # Philox
    ("philox.cuh", "dropout", "round < 10", "round < 9"),
    ("philox.cuh", "dropout", "key1 = (unsigned int)(seed >> 32)", "key1 = (unsigned int)seed"),
    ("dropout.cu", "dropout", "[quarter * 8 + lane / 4]", "[quarter * 8 + lane % 8]"),
    ("attention.cu", "attention", "(unsigned int)t, (unsigned int)head, 1u", "(unsigned int)t, 0u, 1u"),
    ("attention.cu", "attention", "(unsigned int)(key / 4)", "(unsigned int)(key / 8)"),
    # bank conflicts
    ("dropout.cu", "dropout", "[WARP + 8]", "[WARP]"),
    ("attention_tile.cuh", "attention", "typedef real Row[WIDTH + 1];", "typedef real Row[WIDTH];"),
    ("attention_tile.cuh", "attention", "typedef real ScoreRow[TILE + 1];", "typedef real ScoreRow[TILE];"),
    # locals that nobody wrote
    ("attention.cu", "attention", "            real total = 0;\n", "            real total;\n"),
    ("common.cuh", "softmax", "    real part = 0;\n", "    real part;\n"),
    ("attention.cu", "attention", "l[L::R] = {};", "l[L::R];"),
    ("attention.cu", "attention", "real acc[L::R][L::E] = {}, m", "real acc[L::R][L::E], m"),
    ("attention.cu", "attention", "        real p[L::R][L::C] = {};\n", "        real p[L::R][L::C];\n"),
    # formulas
    ("softmax.cu", "log_softmax", "exp(y[first + c]) * total", "exp(y[first + c])"),
    ("cross_entropy.cu", "cross_entropy", "loss -= eps * plain / V", "loss -= eps * plain"),
    ("cross_entropy.cu", "cross_entropy", "rows_kept.add(!ignoring || targets[n] != ignore_index);", "rows_kept.add(1);"),
    ("linear_cross_entropy.cu", "linear_cross_entropy", "row[target] + bias[target]", "row[target]"),
    ("linear.cu", "linear_cross_entropy", "y[i] += x[i]", "y[i] = x[i]"),
    ("elementwise.cu", "relu", "x[i] > 0 ? d", "x[i] >= 0 ? d"),
    ("activations.cuh", "sigmoid", "exp(-fabs(x))", "exp(-x)"),
    ("feed_forward.cu", "feed_forward", "dpre[i] *= gelu_slope(x)", "dpre[i] = gelu_slope(x)"),
    ("quantised_linear.cu", "dequantise", "(signed char)block", "block"),
    ("quantised_linear.cu", "dequantise", "both & 15 : both >> 4", "both >> 4 : both & 15"),
    ("quantised_linear.cu", "dequantise", "half_at(block + 2)", "half_at(block)"),
    ("quantised_linear.cu", "dequantise", "(unsigned)place[1] << 8", "(unsigned)place[1] << 7"),
    ("quantised_linear.cu", "quantised_linear", "block += BYTES(kind)", "block += BYTES(Q8_0)"),
    ("quantised_linear.cu", "quantised_linear", "if (lane == 0) y[task]", "if (lane == 0) y[f]"),
    ("adam.cu", "adam", " + weight_decay * param[i]", ""),
    ("adam.cu", "adam", "rate * m_new", "rate * m[i]"),
    ("attention.cu", "attention", "l[r] = l[r] * shrink + total;", "l[r] = l[r] + total;"),
    ("attention.cu", "attention", "t + query_offset + 1 < keys ? t + query_offset + 1 : keys", "t + query_offset < keys ? t + query_offset : keys"),
]  # fmt: skip


def planted(text: str, old: str, new: str, place: int = 0) -> str:
    parts = text.split(old)
    assert len(parts) > place + 1, f"not there any more: {old}"
    return old.join(parts[: place + 1]) + new + old.join(parts[place + 1 :])
