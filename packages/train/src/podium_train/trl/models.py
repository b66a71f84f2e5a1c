"""Models and tokenizers of a recipe: found, loaded, merged; and models to start from on a processor."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import LogRecord, getLogger
from pathlib import Path
from typing import Any, get_args

import httpx2
import torch
from huggingface_hub import HfApi, hf_hub_url, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars
from peft import AutoPeftModelForCausalLM, LoraConfig
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainingArguments,
)
from transformers.utils import logging

from podium.errors import ConfigError
from podium.plan_text import Spelling
from podium_train.prompts import PromptStyle, sample_prompts, with_prefill
from podium_train.recipe import ModelSection, check_dtype
from podium_train.run_files import Reporter

_SECONDS = 5.0


def check_hub(base: str) -> None:
    """Check that a model can be loaded: a folder, a name on the Hub, or offline a name in the cache."""
    if Path(base).is_dir():
        return
    told = f"the model {base} cannot be loaded: there is no such folder, and"
    if is_offline_mode():
        if not isinstance(try_to_load_from_cache(base, "config.json"), str):
            raise ConfigError(
                f"{told} HF_HUB_OFFLINE is set and no download of it is in the cache: unset HF_HUB_OFFLINE, "
                "or write the folder of a model as 'base' in [model]"
            )
        return
    try:
        HfApi().get_hf_file_metadata(url=hf_hub_url(base, "config.json"), timeout=_SECONDS)
    except HfHubHTTPError as error:
        why = next(iter(str(error).strip().splitlines()), "")
        raise ConfigError(
            f"{told} the Hugging Face Hub refuses it: {why} Check 'base' in [model]; a private model needs "
            "HF_TOKEN"
        ) from error
    except httpx2.HTTPError as error:
        raise ConfigError(
            f"{told} the Hugging Face Hub cannot be reached: {error}. Download it elsewhere "
            f"(`hf download {base} --local-dir FOLDER`) and write FOLDER as 'base' in [model]; if it is in "
            "the cache, set HF_HUB_OFFLINE=1"
        ) from error


def tokenizer_of(base: str, prefill: str = "") -> Any:
    """Return the tokenizer of a model, whose chat template ends each prompt with the prefill."""
    check_hub(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as error:
        told = str(error).strip().splitlines()[0]
        fix = "write a folder, or a name on the Hugging Face Hub, as 'base' in [model]"
        raise ConfigError(f"the model {base} cannot be loaded: {told} To mend it, {fix}") from error
    if not isinstance(tokenizer.chat_template, str):
        raise ConfigError(f"the tokenizer of {base} has not one chat template: take a chat model as base")
    tokenizer.chat_template = with_prefill(tokenizer.chat_template, "")
    plain = _prompt(tokenizer)
    tokenizer.chat_template = with_prefill(tokenizer.chat_template, prefill)
    if _prompt(tokenizer) != plain + prefill:
        raise ConfigError(f"the chat template of {base} cannot take a prefill: leave it out of 'style'")
    return tokenizer


def _prompt(tokenizer: Any) -> str:
    asked = [{"role": "user", "content": "What is 2 + 2?"}]
    return str(tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))


def settings_of(model: ModelSection) -> dict[str, Any]:
    """Return the arguments with which TRL loads the model."""
    attention = {} if model.attention is None else {"attn_implementation": model.attention}
    return {"dtype": dtype_of(model), **attention}


def dtype_of(model: ModelSection) -> str:
    """Return the type of the weights; on a GPU, passes through the model compute in bfloat16 in any case."""
    is_kept = model.lora is not None and torch.cuda.is_available()
    return model.dtype or ("bfloat16" if is_kept else "float32")


def lora_of(model: ModelSection) -> LoraConfig | None:
    """Return the settings of LoRA, or `None` to train all weights."""
    if model.lora is None:
        return None
    return LoraConfig(
        r=model.lora.rank,
        lora_alpha=model.lora.alpha,
        lora_dropout=model.lora.dropout,
        target_modules=model.lora.targets,
        task_type="CAUSAL_LM",
    )


def common_arguments(model: ModelSection) -> dict[str, Any]:
    """Return the arguments of a trainer that depend on the machine."""
    check_dtype(model)
    has_gpu, name = torch.cuda.is_available(), "activation_checkpointing"
    if name not in TrainingArguments.__dataclass_fields__:  # releases that vLLM 0.31 allows
        name = "gradient_checkpointing"
    return {
        "use_cpu": not has_gpu,
        "bf16": has_gpu,
        name: has_gpu,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_total_limit": 3,
        "disable_tqdm": True,
    }


def tell_processor(report: Reporter) -> None:
    """Tell that a training runs without a GPU, which takes long for all but small models."""
    if not torch.cuda.is_available():
        report.line("There is no GPU: the training runs on the processor, with weights in float32.")


def without_extras(trainer: Any) -> None:
    """Leave out the lines of transformers, and the model cards of TRL and PEFT.

    The commands tell of each step, and the cards say nothing of the training.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.create_model_card = _nothing
    if hasattr(trainer.model, "create_or_update_model_card"):
        trainer.model.create_or_update_model_card = _nothing


def _nothing(*_: Any, **_values: Any) -> None:
    """Stand in for a method that writes a model card."""


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out bars of loading and saving weights, and warnings that no user can act on.

    Downloads keep their bars.
    """
    downloads = not are_progress_bars_disabled()
    had_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it has no types
    if downloads:
        enable_progress_bars()
    trl = getLogger("trl.trainer.grpo_trainer")
    trl.addFilter(_is_useful)
    try:
        with warnings.catch_warnings():
            # TRL 1.16 reads this property of transformers 5.23 before it samples.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
            yield
    finally:
        trl.removeFilter(_is_useful)
        if had_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # as above


def _is_useful(record: LogRecord) -> bool:
    """Leave out the warning with the prompt of each text of unknown outcome; the log counts them."""
    return "All reward functions returned None" not in record.getMessage()


@quiet()
def merge_lora(model: Path, out: Path, *, dtype: str) -> None:
    """Write the whole weights of a model that was trained with LoRA."""
    AutoPeftModelForCausalLM.from_pretrained(model, dtype=dtype).merge_and_unload().save_pretrained(out)


_PAD, _END = "<pad>", "<end>"
_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content }}"
    "{% if message.role == 'assistant' %}" + _END + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
_VOCABULARY = 2048
_CONTEXT = 32_768


def write_small_base(folder: Path) -> int:
    """Write a Llama of about 0.2 million random weights, and a tokenizer for bytes with a chat template.

    The tokenizer has merged the bytes of the planner's prompts, so that prompts are short.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists: name a new folder with --out")
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=160,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=_CONTEXT,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=True,
        )
    )
    try:
        folder.mkdir(parents=True)
        with quiet():
            tokenizer.save_pretrained(folder)
            model.save_pretrained(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}") from error
    return int(model.num_parameters())


def write_gguf_base(file: Path, folder: Path) -> int:
    """Write a model that transformers reads from a GGUF file, in float32, so that it can be trained."""
    if folder.exists():
        raise ConfigError(f"{folder} exists: name a new folder with --out")
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except (ImportError, OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config  # the weights are no longer quantised
    model = type(read)(read.config)  # transformers refuses to save a model that was quantised
    model.load_state_dict(read.state_dict())
    with quiet():
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return int(model.num_parameters())


def _tokenizer() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_PAD, _END, "<system>", "<user>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # it has no types
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        eos_token=_END,
        chat_template=_TEMPLATE,
        model_max_length=_CONTEXT,
    )


def _texts() -> Iterator[str]:
    """Yield prompts in each spelling."""
    for spelling in get_args(Spelling):
        for prompt in sample_prompts(PromptStyle(spelling=spelling)):
            yield from (message.text for message in prompt)
