"""Find conductors by model names."""

from collections.abc import Mapping

from agents import Model, ModelProvider

from podium.errors import ConfigError


class ConductorProvider(ModelProvider):
    """Finds conductors by the model names of agents.

    With `RunConfig(model_provider=ConductorProvider({"team": model}))` a conductor answers for `Agent(…,
    model="team")`.

    Args:
        models: the conductors (`ConductorModel`), by name.
        otherwise: finds all other models, and the model for agents without a model name. With `None`, these
            are an error.

    Raises:
        ConfigError: an object in `models` is not a model.
    """

    def __init__(self, models: Mapping[str, Model], *, otherwise: ModelProvider | None = None) -> None:
        given: Mapping[str, object] = models
        for name, model in given.items():
            if not isinstance(model, Model):
                told = f"the model {name!r} is {model!r:.80}: give a ConductorModel"
                raise ConfigError(f"{told}, such as ConductorModel(conductor)")
        self.models = dict(models)
        self.otherwise = otherwise

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of a name.

        Raises:
            ConfigError: there is no such model.
        """
        if model_name in self.models:
            return self.models[model_name]
        if self.otherwise is None:
            names = ", ".join(self.models) or "none"
            raise ConfigError(f"there is no model {model_name!r}: the conductors are {names}")
        return self.otherwise.get_model(model_name)

    async def aclose(self) -> None:
        """Close the provider of the other models."""
        if self.otherwise is not None:
            await self.otherwise.aclose()
