"""SamplingParams: how text is drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .errors import InvalidArgument, UnknownArgument


@dataclass
class SamplingParams:
    """How text is drawn; None: as the model's makers recommend, or as the server is set (docs/API.md).

    temperature: 0: the most probable token. n: texts for each prompt. stop: ends the text before it.
    max_tokens: of the text; None: 16 for a prompt, for a chat as the server is set.
    logprobs: so many of the most probable tokens are told for each token, with their log-probabilities.
    json_schema, regex, choice, grammar: the form that the text has: JSON by a schema, a pattern, one of
    some texts, rules in GBNF; one of them at most.
    """

    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    logprobs: int | None = None
    json_schema: dict[str, Any] | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None

    def body(self, chat: bool) -> dict[str, Any]:
        """The fields of a request of /v1/chat/completions, or of /v1/completions."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found = {_NAMES.get(name, name): value for name, value in found.items() if value is not None}
        if chat and self.logprobs is not None:
            found["logprobs"], found["top_logprobs"] = True, self.logprobs
        if self.logit_bias is not None:
            found["logit_bias"] = {str(token): bias for token, bias in self.logit_bias.items()}
        return found


# What a request calls them.
_NAMES = {"regex": "guided_regex", "choice": "guided_choice"}
_KNOWN = frozenset(each.name for each in fields(SamplingParams))


def params_of(given: SamplingParams | None, more: dict[str, Any], where: str) -> SamplingParams:
    """What was given as an object, or as fields by name. Raises UnknownArgument for another name."""
    for name in more:
        if name not in _KNOWN:
            raise UnknownArgument(f"{where} does not know the argument '{name}'", field=name)
    if given is None:
        return SamplingParams(**more)
    if more:
        raise InvalidArgument("fields of sampling are given in an object and by name", field=next(iter(more)))
    if not isinstance(given, SamplingParams):
        raise InvalidArgument(
            f"'sampling_params' must be SamplingParams, is {type(given).__name__}", field="sampling_params"
        )
    return given
