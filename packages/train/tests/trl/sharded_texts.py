"""Two processes whose weights are sharded write texts in unequal numbers of batches.

Each writes the number of its texts to a file in a folder.
"""

import sys
from pathlib import Path

import torch
from accelerate import PartialState
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, AutoTokenizer

from podium.types import Message
from podium_train.trl import Generator

torch.set_num_threads(1)
state, base, out = PartialState(cpu=True), sys.argv[1], Path(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(base)
for layer in model.model.layers:
    fully_shard(layer)
fully_shard(model)
prompts = [[Message("user", f"What is {number} + 1?")] for number in range(5)]
own = prompts[state.process_index :: state.num_processes]
generator = Generator(model, AutoTokenizer.from_pretrained(base), max_tokens=6, batch=2)
(out / str(state.process_index)).write_text(str(len(generator.texts(own, is_greedy=True, seed=1))))
state.destroy_process_group()
