"""PyTorch's pipelining on the model of configs/bench_llama.yaml, for comparison: Schedule1F1B over gloo, one thread per rank, two processes.

    python3 bench/pytorch_1f1b.py            (needs torch; prints the step time, GFLOP/s by Nanotron's formula and each rank's peak memory)
    python3 bench/pytorch_1f1b.py --tiny     (the model of configs/config_tiny_llama.yaml, random tokens)
    python3 bench/pytorch_1f1b.py --bf16     (everything in bfloat16, the optimizer too: no float32 masters; beside it --set model.dtype=bfloat16)
"""
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

TINY = "--tiny" in sys.argv
DTYPE = torch.bfloat16 if "--bf16" in sys.argv else torch.float32
H, LAYERS, HEADS, KV, FFN, VOCAB, SEQ, MBS = (128, 8, 4, 4, 352, 256, 128, 2) if TINY else (512, 8, 8, 4, 1408, 8192, 256, 2)
M, STEPS, D = 8, 12, H // HEADS


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(H, 1e-5), nn.RMSNorm(H, 1e-5)
        self.q, self.k, self.v = nn.Linear(H, HEADS * D, False), nn.Linear(H, KV * D, False), nn.Linear(H, KV * D, False)
        self.o = nn.Linear(HEADS * D, H, False)
        self.gate, self.up, self.down = nn.Linear(H, FFN, False), nn.Linear(H, FFN, False), nn.Linear(FFN, H, False)
        angle = torch.outer(torch.arange(SEQ), 10000.0 ** (-torch.arange(0, D, 2) / D))
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def rope(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        b, s, _ = x.shape
        y = self.n1(x)
        q = self.rope(self.q(y).view(b, s, HEADS, D).transpose(1, 2))
        k = self.rope(self.k(y).view(b, s, KV, D).transpose(1, 2))
        v = self.v(y).view(b, s, KV, D).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=HEADS != KV)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, HEADS * D))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Stage(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, H) if rank == 0 else None
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS // 2))
        self.norm, self.head = (nn.RMSNorm(H, 1e-5), nn.Linear(H, VOCAB, False)) if rank == 1 else (None, None)

    def forward(self, x):
        if self.embed is not None:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.head is not None else x


def run(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    torch.manual_seed(rank)
    stage = PipelineStage(Stage(rank).to(DTYPE), rank, 2, torch.device("cpu"))
    loss = lambda y, t: F.cross_entropy(y.flatten(0, 1).float(), t.flatten())
    schedule = Schedule1F1B(stage, M, loss_fn=loss)
    parameters = list(stage.submod.parameters())
    optimizer = torch.optim.AdamW(parameters, 3e-4, (0.9, 0.95), weight_decay=0.01)
    times = []
    for _ in range(STEPS):
        tokens = torch.randint(VOCAB, (M * MBS, SEQ + 1))
        begin = time.perf_counter()
        schedule.step(tokens[:, :-1]) if rank == 0 else schedule.step(target=tokens[:, 1:])
        total = sum(p.grad.float().square().sum() for p in parameters)
        dist.all_reduce(total)
        scale = min(1.0, 1.0 / (total.sqrt().item() + 1e-6))
        for p in parameters:
            p.grad.mul_(scale)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
    step = sorted(times)[len(times) // 2]
    b = M * MBS
    flops = 3 * (LAYERS * b * SEQ * (2 * H * HEADS * D + 4 * H * KV * D + 4 * SEQ * HEADS * D + 2 * HEADS * D * H + 6 * H * FFN) + 2 * b * SEQ * H * VOCAB)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rank {rank}: step {step * 1e3:.1f} ms (median of {STEPS}), {flops / step * 1e-9:.1f} GFLOP/s in all, peak memory {memory:.0f} MB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, (port,), nprocs=2)
