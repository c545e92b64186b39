"""LLM: text that a model writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ._backend import Mapped, Pending, load, post
from ._model import Model
from ._order import ain_order, in_order
from ._text_stream import AsyncTextStream, TextStream
from .errors import Error, InvalidArgument
from .outputs import ChatResult, RequestOutput, request_output
from .sampling import SamplingParams, params_of

if TYPE_CHECKING:
    from ._backend import Request

Prompt = Any  # a text, or ids of tokens
Messages = Sequence[dict[str, Any]]
# Prompts of one call of generate that are written side by side.
UNDER_WAY = 32
CHAT_FIELDS = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "chat_template_kwargs",
    "reasoning_effort",
    "add_generation_prompt",
    "continue_final_message",
)


class LLM(Model):
    """A model that generates text, with the methods of vllm.LLM. What is not given is as the model's makers say."""

    _task = "generation"

    @overload
    def generate(
        self,
        prompts: Prompt,
        sampling_params: SamplingParams | None = None,
        *,
        stream: Literal[False] = False,
        **fields: Any,
    ) -> list[RequestOutput]: ...

    @overload
    def generate(
        self,
        prompts: Prompt,
        sampling_params: SamplingParams | None = None,
        *,
        stream: Literal[True],
        **fields: Any,
    ) -> TextStream: ...

    def generate(
        self, prompts: Prompt, sampling_params: SamplingParams | None = None, *, stream: bool = False, **fields: Any
    ) -> list[RequestOutput] | TextStream:
        """Continues prompts as they are, without a chat template.

        prompts: a text, ids of tokens, or a list of those. fields: those of SamplingParams, by name.
        stream: for one prompt: an iterator of texts.

        Returns a RequestOutput for each prompt, in their order; a prompt alone has a list of one.
        Raises InvalidArgument with the argument or "prompts[i]" as field, Overloaded, ...
        """
        found = _prompts(prompts)
        params = params_of(sampling_params, fields, "generate")
        if not stream:
            return list(in_order(self._completions(found, params), UNDER_WAY))
        return TextStream(self._opened()[0].stream(self._completion_stream(found, params)))

    async def agenerate(
        self, prompts: Prompt, sampling_params: SamplingParams | None = None, *, stream: bool = False, **fields: Any
    ) -> Any:
        """As generate. With stream an AsyncTextStream."""
        found = _prompts(prompts)
        params = params_of(sampling_params, fields, "generate")
        if not stream:
            return [each async for each in ain_order(self._completions(found, params), UNDER_WAY)]
        return AsyncTextStream(await self._opened()[0].astream(self._completion_stream(found, params)))

    @overload
    def chat(
        self,
        messages: Messages,
        sampling_params: SamplingParams | None = None,
        *,
        stream: Literal[False] = False,
        **fields: Any,
    ) -> ChatResult: ...

    @overload
    def chat(
        self,
        messages: Messages,
        sampling_params: SamplingParams | None = None,
        *,
        stream: Literal[True],
        **fields: Any,
    ) -> TextStream: ...

    def chat(
        self,
        messages: Messages,
        sampling_params: SamplingParams | None = None,
        *,
        stream: bool = False,
        **fields: Any,
    ) -> ChatResult | TextStream:
        """Answers a chat.

        messages: dicts with "role" and "content", as OpenAI has them. fields: those of SamplingParams by
        name, and of /v1/chat/completions: tools, tool_choice, parallel_tool_calls, response_format,
        chat_template_kwargs, reasoning_effort, add_generation_prompt, continue_final_message.
        stream: an iterator of texts.

        Raises InvalidArgument with the argument as field, Overloaded, ...
        """
        request = self._chat_request(messages, sampling_params, fields, stream)
        backend = self._opened()[0]
        if stream:
            return TextStream(backend.stream(request))
        return ChatResult(load(backend.call(request).result()))

    async def achat(
        self,
        messages: Messages,
        sampling_params: SamplingParams | None = None,
        *,
        stream: bool = False,
        **fields: Any,
    ) -> Any:
        """As chat. With stream an AsyncTextStream."""
        request = self._chat_request(messages, sampling_params, fields, stream)
        backend = self._opened()[0]
        if stream:
            return AsyncTextStream(await backend.astream(request))
        return ChatResult(load(await backend.call(request).aresult()))

    def _chat_request(
        self, messages: Messages, given: SamplingParams | None, fields: dict[str, Any], stream: bool
    ) -> Request:
        body = {name: fields.pop(name) for name in CHAT_FIELDS if name in fields}
        params = params_of(given, fields, "chat")
        body = {name: value for name, value in body.items() if value is not None}
        if isinstance(messages, (str, dict)):
            raise InvalidArgument("'messages' must be a list of dicts with 'role' and 'content'", field="messages")
        body.update(params.body(chat=True), model=self._opened()[1], messages=list(messages))
        return post("/v1/chat/completions", _streamed(body) if stream else body)

    def _completions(self, prompts: list[Prompt], params: SamplingParams) -> Iterator[Pending[RequestOutput]]:
        """A call for each prompt, so that each has its own counts, and none waits for another."""
        backend, name = self._opened()
        for row, prompt in enumerate(prompts):
            call = backend.call(post("/v1/completions", {**params.body(chat=False), "model": name, "prompt": prompt}))
            yield Mapped(call, _Output(prompt), _Row(row))

    def _completion_stream(self, prompts: list[Prompt], params: SamplingParams) -> Request:
        if len(prompts) != 1:
            raise InvalidArgument(f"'stream' is for one prompt, not {len(prompts)}", field="stream")
        body = {**params.body(chat=False), "model": self._opened()[1], "prompt": prompts[0]}
        return post("/v1/completions", _streamed(body))


class _Output:
    """Makes a RequestOutput of an answer."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def __call__(self, answer: bytes) -> RequestOutput:
        return request_output(self._prompt, load(answer))


class _Row:
    """Gives an error of a prompt its row."""

    def __init__(self, row: int) -> None:
        self._row = row

    def __call__(self, error: Error) -> None:
        if error.field == "prompt":
            error.field = f"prompts[{self._row}]"


def _streamed(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


def _prompts(prompts: Prompt) -> list[Prompt]:
    if isinstance(prompts, str) or _is_ids(prompts):
        return [prompts if isinstance(prompts, str) else list(prompts)]
    if isinstance(prompts, (bytes, dict)) or not isinstance(prompts, Iterable):
        raise InvalidArgument("'prompts' must be a text, ids of tokens, or a list of those", field="prompts")
    found = [list(each) if _is_ids(each) else each for each in prompts]
    for row, each in enumerate(found):
        if not isinstance(each, (str, list)):
            raise InvalidArgument(f"'prompts[{row}]' must be a text or ids of tokens", field=f"prompts[{row}]")
    return found


def _is_ids(prompt: Any) -> bool:
    return isinstance(prompt, (list, tuple)) and len(prompt) > 0 and all(isinstance(each, int) for each in prompt)
