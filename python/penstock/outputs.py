"""What an LLM gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class CompletionOutput:
    """A text. finish_reason: "stop", "length" or "tool_calls".

    logprobs: None, or as /v1/completions has them: tokens, token_logprobs, top_logprobs, text_offset.
    """

    index: int
    text: str
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


@dataclass
class RequestOutput:
    """The texts for a prompt, and the tokens of the prompt and of all its texts together."""

    prompt: str | list[int]
    outputs: list[CompletionOutput]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finished: bool = field(default=True)

    @property
    def text(self) -> str:
        """The first text."""
        return self.outputs[0].text


def request_output(prompt: str | list[int], answer: dict[str, Any]) -> RequestOutput:
    """The answer of /v1/completions to one prompt."""
    outputs = [
        CompletionOutput(each["index"], each["text"], each["finish_reason"], each.get("logprobs"))
        for each in answer["choices"]
    ]
    usage = answer["usage"]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return RequestOutput(prompt, outputs, usage["prompt_tokens"], usage["completion_tokens"], cached)


class ChatResult(dict[str, Any]):
    """An answer of /v1/chat/completions as OpenAI has it, a dict, and what is asked of it most."""

    @property
    def message(self) -> dict[str, Any]:
        """The first answer, which can be put into the messages of the next call."""
        found: dict[str, Any] = self["choices"][0]["message"]
        return found

    @property
    def text(self) -> str:
        """The text of the first answer; "" where it is only calls of tools."""
        return self.message.get("content") or ""

    @property
    def reasoning(self) -> str:
        """What the model thought before it."""
        return self.message.get("reasoning_content") or ""

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Calls of tools: {"id", "type", "function": {"name", "arguments"}}."""
        return self.message.get("tool_calls") or []

    @property
    def finish_reason(self) -> str | None:
        """ "stop", "length" or "tool_calls"."""
        found: str | None = self["choices"][0]["finish_reason"]
        return found

    @property
    def usage(self) -> dict[str, Any]:
        """prompt_tokens, completion_tokens, ..."""
        found: dict[str, Any] = self["usage"]
        return found
