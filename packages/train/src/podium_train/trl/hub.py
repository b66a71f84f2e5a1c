"""Asks the Hugging Face Hub once for a model, because transformers repeats its requests for a minute."""

from pathlib import Path

import httpx2
from huggingface_hub import HfApi, hf_hub_url, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from podium.errors import ConfigError

_SECONDS = 5.0


def check_hub(base: str) -> None:
    """Check that a model can be loaded: a folder, a name on the Hub, or offline a name in the cache.

    Raises:
        ConfigError: the Hub has no such model or cannot be reached, or the cache lacks it.
    """
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
